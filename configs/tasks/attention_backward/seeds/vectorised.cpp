/*--- cultivar
name: attention_backward_vectorised
task: attention_backward
target: cpu
about: "One pass of five register-blocked products over tiles of keys and queries; a thread owns a key head with its query heads, so that no sum is shared."
requires: "dtype == f32 && D % 64 == 0 && D <= 256"
tunables:
  WIDTH: {values: [4, 8, 16], default: 8}      # floats of a vector
  ROWS: {values: [2, 4, 6, 8], default: 4}     # of a micro-tile, in all products
  VECTORS: {values: [1, 2, 4], default: 2}     # of a micro-tile's row
  TILE_Q: {values: [24, 48, 96], default: 48}
  TILE_K: {values: [64, 128, 192], default: 64}
  EXP_DEGREE: {values: [5, 6, 7], default: 6}
  SCHEDULE: {values: [fixed, ticket], default: ticket}  # how key heads are dealt out to the threads
constraints:
  - "32 * WIDTH <= max(256, vector_bits)"
  - "(ROWS + 1) * VECTORS <= 30"
  - "TILE_Q % ROWS == 0"
  - "TILE_K % (WIDTH * VECTORS) == 0"
specialize: [D, causal]
let:
  # floats of one thread: a tile of k, its transpose and that of v, of dk and dv; of q, grad_o and dq; P and DS; slack
  keys: "round_up(TILE_K, ROWS)"
  share: "5 * keys * D + 3 * TILE_Q * D + 2 * TILE_Q * keys + 2 * TILE_Q + 64"
workspace:
  scratch: {bytes: "4 * num_cores * share"}
  next_unit: {bytes: 64, zero: true}
launch:
  - kernel: attention_backward
    args: [q, k, v, o, lse, grad_o, dq, dk, dv, scratch, next_unit, {value: share, type: i32}, B, H, H_kv, S_q, S_kv, scale, thread, threads]
---*/

// A unit of work is a key head of a sequence. Tiles of its keys are transposed once, and all its queries walk past:
//
//   P = exp(scale Q K^T - LSE), DS = P * (DO V^T - delta)      K and V transposed: keys lie in the vector lanes
//   DV += P^T DO, DK += DS^T Q, DQ += DS K                     features lie in the vector lanes
//
// Sums of dq are kept in its output, which is written by the first tile of keys that a query sees.

#include <cmath>
#include <cstddef>
#include <cstring>
#include <initializer_list>

namespace {

using Index = std::ptrdiff_t;

typedef float Vector __attribute__((vector_size(4 * WIDTH), may_alias));
typedef float Loose __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));
typedef int IntVector __attribute__((vector_size(4 * WIDTH), may_alias));

constexpr int kKeys = (TILE_K + ROWS - 1) / ROWS * ROWS;  // rows of a tile of keys, the last of them padding
constexpr float kLog2e = 1.44269504f;

#define UNROLLED _Pragma("GCC unroll 32")

inline Vector broadcast(float x) {
  return x - Vector{};  // the sum would have to turn -0 into 0
}

// Minimax polynomials of 2^r on [-1/2, 1/2] with constant term 1: relative error 9.1e-8, 1.9e-9 and 4.0e-11.
#if EXP_DEGREE == 5
constexpr float kExp2[] = {1.0f,           6.931469776e-01f, 2.402224210e-01f,
                           5.550733805e-02f, 9.671512256e-03f, 1.326470620e-03f};
#elif EXP_DEGREE == 6
constexpr float kExp2[] = {1.0f,           6.931472057e-01f, 2.402264689e-01f, 5.550328777e-02f,
                           9.618488761e-03f, 1.339993135e-03f, 1.534586467e-04f};
#else
constexpr float kExp2[] = {1.0f,           6.931471807e-01f, 2.402265120e-01f, 5.550410354e-02f,
                           9.618027263e-03f, 1.333392232e-03f, 1.546928867e-04f, 1.520197680e-05f};
#endif

// 2^y for y up to 100, 0 below -126. The power of two goes into the exponent bits.
inline Vector exp2_of(Vector y) {
  constexpr float kRounder = 12582912.0f;  // 1.5 * 2^23: its sum with y has round(y) in the low bits
  const IntVector small = y < -126.0f;
  y = small ? broadcast(-126.0f) : y;
  const Vector shifted = y + kRounder;
  const Vector r = y - (shifted - kRounder);
  Vector p = broadcast(kExp2[EXP_DEGREE]);
  UNROLLED for (int i = EXP_DEGREE - 1; i >= 0; --i) p = p * r + kExp2[i];
  return small ? Vector{} : (Vector)((IntVector)p + ((IntVector)shifted << 23));
}

// c[m][n] = (add ? c[m][n] : 0) + sum over k of a[m * a_row + k * a_inner] * b[k][n], for a multiple of ROWS rows.
__attribute__((noinline)) void product(int rows, int columns, int inner, const float* a, Index a_row, Index a_inner,
                                       const float* b, Index b_row, float* c, Index c_row, bool add) {
  for (int n = 0; n < columns; n += WIDTH * VECTORS)
    for (int m = 0; m < rows; m += ROWS) {
      Vector sum[ROWS][VECTORS];
      UNROLLED for (int r = 0; r < ROWS; ++r) {
        UNROLLED for (int x = 0; x < VECTORS; ++x) {
          sum[r][x] = add ? *(const Loose*)(c + (m + r) * c_row + n + x * WIDTH) : Vector{};
        }
      }
      for (int k = 0; k < inner; ++k) {
        Vector line[VECTORS];
        UNROLLED for (int x = 0; x < VECTORS; ++x) line[x] = *(const Loose*)(b + k * b_row + n + x * WIDTH);
        UNROLLED for (int r = 0; r < ROWS; ++r) {
          const Vector factor = broadcast(a[(m + r) * a_row + k * a_inner]);
          UNROLLED for (int x = 0; x < VECTORS; ++x) sum[r][x] += factor * line[x];
        }
      }
      UNROLLED for (int r = 0; r < ROWS; ++r) {
        UNROLLED for (int x = 0; x < VECTORS; ++x) *(Loose*)(c + (m + r) * c_row + n + x * WIDTH) = sum[r][x];
      }
    }
}

// `count` rows at a stride -> contiguous rows, and zeros up to `padded` rows.
void copy_rows(const float* from, Index stride, int count, int padded, float* to) {
  for (int i = 0; i < count; ++i) std::memcpy(to + static_cast<Index>(i) * D, from + i * stride, sizeof(float) * D);
  std::memset(to + static_cast<Index>(count) * D, 0, sizeof(float) * D * (padded - count));
}

// rows -> columns [D][kKeys]
void transpose(const float* rows, float* columns) {
  for (int d = 0; d < D; ++d)
    for (int j = 0; j < kKeys; ++j) columns[d * kKeys + j] = rows[static_cast<Index>(j) * D + d];
}

struct Tiles {
  float *k, *k_columns, *v_columns, *dk, *dv, *q, *grad, *dq, *p, *ds, *base, *delta;
  explicit Tiles(float* memory) {
    const auto take = [&](Index count) {
      float* const part = memory;
      memory += count;
      return part;
    };
    for (float** part : {&k, &k_columns, &v_columns, &dk, &dv}) *part = take(static_cast<Index>(kKeys) * D);
    for (float** part : {&q, &grad, &dq}) *part = take(static_cast<Index>(TILE_Q) * D);
    for (float** part : {&p, &ds}) *part = take(static_cast<Index>(TILE_Q) * kKeys);
    for (float** part : {&base, &delta}) *part = take(TILE_Q);
  }
};

// The logits in t.p and DO V^T in t.ds become P and DS * scale. Key j of the tile is seen by query i if j < end + i.
void weigh(const Tiles& t, int queries, int keys, Index end, float scale) {
  for (int i = 0; i < TILE_Q; ++i) {
    float *const p = t.p + static_cast<Index>(i) * kKeys, *const ds = t.ds + static_cast<Index>(i) * kKeys;
    const Index limit = i >= queries ? 0 : causal && end + i < keys ? end + i : keys;
    const int seen = limit < 0 ? 0 : static_cast<int>(limit);
    if (seen > 0) {
      const float base = t.base[i] * kLog2e, delta = t.delta[i];
      for (int j = 0; j < seen; j += WIDTH) {
        const Vector weight = exp2_of(*(const Loose*)(p + j) * (scale * kLog2e) - base);
        *(Loose*)(ds + j) = weight * (*(const Loose*)(ds + j) - delta) * scale;
        *(Loose*)(p + j) = weight;
      }
    }
    for (int j = seen; j < kKeys; ++j) p[j] = ds[j] = 0.0f;
  }
}

}  // namespace

extern "C" void attention_backward(const float* q, const float* k, const float* v, const float* o, const float* lse,
                                   const float* grad, float* dq, float* dk, float* dv, float* scratch, int* next_unit,
                                   int share, int B, int H, int H_kv, int S_q, int S_kv, float scale, int thread,
                                   int threads) {
  const Tiles t((float*)(((size_t)(scratch + static_cast<Index>(thread) * share) + 63) / 64 * 64));
  const Index q_stride = static_cast<Index>(H) * D, kv_stride = static_cast<Index>(H_kv) * D;
  const int group = H / H_kv, units = B * H_kv, shift = S_kv - S_q;  // query i sees the keys up to i + shift
  const auto next = [&](int unit) {
    return SCHEDULE == SCHEDULE_ticket ? __atomic_fetch_add(next_unit, 1, __ATOMIC_RELAXED) : unit + threads;
  };
  for (int unit = next(thread - threads); unit < units; unit = next(unit)) {
    const Index b = unit / H_kv, hk = unit % H_kv;
    const auto query_at = [&](int i, int h) { return (b * S_q + i) * q_stride + static_cast<Index>(h) * D; };
    for (int h = static_cast<int>(hk) * group; h < (hk + 1) * group; ++h)  // queries that see nothing
      for (int i = 0; causal && i < S_q && i + shift < 0; ++i) std::memset(dq + query_at(i, h), 0, sizeof(float) * D);
    for (int first_key = 0; first_key < S_kv; first_key += TILE_K) {
      const int keys = S_kv - first_key < TILE_K ? S_kv - first_key : TILE_K;
      const Index key_at = (b * S_kv + first_key) * kv_stride + hk * D;
      copy_rows(v + key_at, kv_stride, keys, kKeys, t.k);
      transpose(t.k, t.v_columns);
      copy_rows(k + key_at, kv_stride, keys, kKeys, t.k);
      transpose(t.k, t.k_columns);
      std::memset(t.dk, 0, sizeof(float) * kKeys * D);
      std::memset(t.dv, 0, sizeof(float) * kKeys * D);
      const int start = causal && first_key - shift > 0 ? first_key - shift : 0;
      for (int h = static_cast<int>(hk) * group; h < (hk + 1) * group; ++h)
        for (int first = start; first < S_q; first += TILE_Q) {
          const int queries = S_q - first < TILE_Q ? S_q - first : TILE_Q;
          const Index at = query_at(first, h);
          copy_rows(q + at, q_stride, queries, TILE_Q, t.q);
          copy_rows(grad + at, q_stride, queries, TILE_Q, t.grad);
          for (int i = 0; i < queries; ++i) {
            const float *const g = t.grad + static_cast<Index>(i) * D, *const out = o + at + i * q_stride;
            Vector sum = {};
            for (int d = 0; d < D; d += WIDTH) sum += *(const Loose*)(g + d) * *(const Loose*)(out + d);
            float delta = 0.0f;
            for (int l = 0; l < WIDTH; ++l) delta += sum[l];
            t.delta[i] = delta;
            t.base[i] = lse[(b * H + h) * S_q + first + i];
          }
          product(TILE_Q, TILE_K, D, t.q, D, 1, t.k_columns, kKeys, t.p, kKeys, false);
          product(TILE_Q, TILE_K, D, t.grad, D, 1, t.v_columns, kKeys, t.ds, kKeys, false);
          weigh(t, queries, keys, static_cast<Index>(first) + shift + 1 - first_key, scale);
          product(kKeys, D, queries, t.p, 1, kKeys, t.grad, D, t.dv, D, true);
          product(kKeys, D, queries, t.ds, 1, kKeys, t.q, D, t.dk, D, true);
          // The first tile of keys is the first that any query sees.
          if (first_key > 0)
            for (int i = 0; i < queries; ++i)
              std::memcpy(t.dq + static_cast<Index>(i) * D, dq + at + i * q_stride, sizeof(float) * D);
          product(TILE_Q, D, keys, t.ds, kKeys, 1, t.k, D, t.dq, D, first_key > 0);
          for (int i = 0; i < queries; ++i)
            std::memcpy(dq + at + i * q_stride, t.dq + static_cast<Index>(i) * D, sizeof(float) * D);
        }
      for (int j = 0; j < keys; ++j) {
        std::memcpy(dk + key_at + j * kv_stride, t.dk + static_cast<Index>(j) * D, sizeof(float) * D);
        std::memcpy(dv + key_at + j * kv_stride, t.dv + static_cast<Index>(j) * D, sizeof(float) * D);
      }
    }
  }
}
