/*--- cultivar
name: attention_vectorised
task: attention_forward
target: cpu
about: "Queries lie in the vector lanes: register-blocked products with broadcast keys and values, online softmax without horizontal sums, polynomial exp."
requires: "dtype == f32 && D % 16 == 0"
tunables:
  WIDTH: {values: [4, 8, 16], default: 8}              # floats of a vector
  QUERY_VECTORS: {values: [1, 2, 3, 4, 6], default: 2} # vectors of queries of a micro-tile, in both products
  KEY_ROWS: {values: [2, 4, 6, 8, 12, 16], default: 4} # keys of a micro-tile of Q K^T
  VALUE_COLUMNS: {values: [2, 4, 8, 16], default: 4}   # features of a micro-tile of P V
  QUERY_BLOCKS: {values: [1, 2, 3, 4, 6, 8], default: 2} # micro-tiles of queries that share a tile of keys
  TILE_K: {values: [16, 24, 32, 48, 64, 96, 128, 192], default: 32}
  LAYOUT: {values: [row, packed], default: row}        # keys and values where they lie, or copied tile by tile
  UNROLL: {values: [1, 2, 4, 8], default: 1}           # of the loops along D and along the keys
  EXP_DEGREE: {values: [5, 6, 7], default: 7}
  SCHEDULE: {values: [fixed, ticket], default: fixed}  # how blocks of queries are dealt out to the threads
  CORES_PER_THREAD: {values: [1, 2], default: 1}
constraints:
  - "32 * WIDTH <= max(256, vector_bits)"
  - "(KEY_ROWS + 1) * QUERY_VECTORS <= 30"
  - "(VALUE_COLUMNS + 1) * QUERY_VECTORS <= 30"
  - "TILE_K % KEY_ROWS == 0"
specialize: [D, causal]
let:
  team: "ceil_div(num_cores, CORES_PER_THREAD)"
  tile_q: "QUERY_BLOCKS * QUERY_VECTORS * WIDTH"
  # floats of one thread: q and o of its queries, maxima and sums, a tile of keys, of values, of weights; slack
  share: "2 * tile_q * D + 2 * tile_q + 2 * TILE_K * D + TILE_K * QUERY_VECTORS * WIDTH + 64"
workspace:
  scratch: {bytes: "4 * team * share"}
  next_unit: {bytes: 64, zero: true}
launch:
  - kernel: attention_forward
    threads: team
    args: [q, k, v, o, lse, scratch, next_unit, {value: share, type: i32}, B, H, H_kv, S_q, S_kv, scale, thread, threads]
---*/

// A unit of work is QUERY_BLOCKS blocks of one head's queries, a block being QUERY_VECTORS vectors. The queries of
// a unit are transposed once to [block][D][queries], so that
//
//   S^T[key][queries]      = sum over d of K[key][d] * Q^T[d][queries]       (K is broadcast)
//   O^T[feature][queries] += sum over keys of V[key][feature] * P^T[key][queries]   (V is broadcast)
//
// read keys and values in their own layout, and maxima, sums and rescaling are lane-wise. The unit walks over tiles
// of TILE_K keys; each tile serves all its blocks while it is in the cache. O^T is transposed back at the end.
//
// Logits stay raw dot products s; a weight is 2^((s - m) |scale| log2(e)) with m the running maximum, so that the
// rounding of the product is relative to the distance from the maximum. The sign of scale goes into Q.

#include <cmath>
#include <cstddef>
#include <cstring>

namespace {

using Index = std::ptrdiff_t;

typedef float Vector __attribute__((vector_size(4 * WIDTH), may_alias));
typedef int IntVector __attribute__((vector_size(4 * WIDTH), may_alias));
typedef float Quad __attribute__((vector_size(16), may_alias));
typedef int IntQuad __attribute__((vector_size(16)));
typedef float LooseQuad __attribute__((vector_size(16), aligned(4), may_alias));

constexpr int kLanes = QUERY_VECTORS * WIDTH;  // queries of a block
constexpr int kQueries = QUERY_BLOCKS * kLanes;
constexpr float kLog2e = 1.44269504f;
constexpr float kInfinity = __builtin_inff();

#define UNROLLED _Pragma("GCC unroll 32")
#define PRAGMA_TEXT(x) _Pragma(#x)
#define PRAGMA(x) PRAGMA_TEXT(x)
#define UNROLLED_BY_KNOB PRAGMA(GCC unroll UNROLL)

inline Vector broadcast(float x) {
  return x - Vector{};  // the sum would have to turn -0 into 0
}
inline Vector larger(Vector a, Vector b) {
  return a > b ? a : b;
}

// Minimax polynomials of 2^r on [-1/2, 1/2] with constant term 1: relative error 9.1e-8, 1.9e-9 and 4.0e-11.
#if EXP_DEGREE == 5
constexpr float kExp2[] = {
    1.0f, 6.931469776e-01f, 2.402224210e-01f, 5.550733805e-02f, 9.671512256e-03f, 1.326470620e-03f};
#elif EXP_DEGREE == 6
constexpr float kExp2[] = {1.0f,
                           6.931472057e-01f,
                           2.402264689e-01f,
                           5.550328777e-02f,
                           9.618488761e-03f,
                           1.339993135e-03f,
                           1.534586467e-04f};
#else
constexpr float kExp2[] = {1.0f,
                           6.931471807e-01f,
                           2.402265120e-01f,
                           5.550410354e-02f,
                           9.618027263e-03f,
                           1.333392232e-03f,
                           1.546928867e-04f,
                           1.520197680e-05f};
#endif

// 2^y for y <= 0, and 0 below -126. The power of two goes into the exponent bits.
inline Vector exp2_of(Vector y) {
  constexpr float kRounder = 12582912.0f;  // 1.5 * 2^23: its sum with y has round(y) in the low bits
  const Vector least = broadcast(-126.0f);
  y = larger(y, least);
  const Vector shifted = y + kRounder;
  const Vector r = y - (shifted - kRounder);
  Vector p = broadcast(kExp2[EXP_DEGREE]);
  UNROLLED for (int i = EXP_DEGREE - 1; i >= 0; --i) p = p * r + kExp2[i];
  return y > least ? (Vector)((IntVector)p + ((IntVector)shifted << 23)) : broadcast(0.0f);
}

inline void transpose4(Quad& a, Quad& b, Quad& c, Quad& d) {
  const Quad ab_low = __builtin_shuffle(a, b, IntQuad{0, 4, 1, 5});
  const Quad ab_high = __builtin_shuffle(a, b, IntQuad{2, 6, 3, 7});
  const Quad cd_low = __builtin_shuffle(c, d, IntQuad{0, 4, 1, 5});
  const Quad cd_high = __builtin_shuffle(c, d, IntQuad{2, 6, 3, 7});
  a = __builtin_shuffle(ab_low, cd_low, IntQuad{0, 1, 4, 5});
  b = __builtin_shuffle(ab_low, cd_low, IntQuad{2, 3, 6, 7});
  c = __builtin_shuffle(ab_high, cd_high, IntQuad{0, 1, 4, 5});
  d = __builtin_shuffle(ab_high, cd_high, IntQuad{2, 3, 6, 7});
}

// rows [count][D] at a stride -> columns [D][kLanes], times sign; lanes past count hold the last row.
void load_queries(const float* rows, Index stride, int count, float sign, float* columns) {
  for (int i = 0; i < kLanes; i += 4) {
    const float* row[4];
    for (int n = 0; n < 4; ++n) row[n] = rows + (i + n < count ? i + n : count - 1) * stride;
    for (int d = 0; d < D; d += 4) {
      Quad a = *(const LooseQuad*)(row[0] + d) * sign, b = *(const LooseQuad*)(row[1] + d) * sign;
      Quad c = *(const LooseQuad*)(row[2] + d) * sign, e = *(const LooseQuad*)(row[3] + d) * sign;
      transpose4(a, b, c, e);
      float* out = columns + static_cast<Index>(d) * kLanes + i;
      *(Quad*)out = a, *(Quad*)(out + kLanes) = b, *(Quad*)(out + 2 * kLanes) = c,
      *(Quad*)(out + 3 * kLanes) = e;
    }
  }
}

// columns [D][kLanes] times factors[kLanes] -> the first count rows [D] at a stride
void store_outputs(const float* columns, const float* factors, int count, float* rows, Index stride) {
  for (int i = 0; i < count; i += 4) {
    const Quad factor = *(const Quad*)(factors + i);
    for (int d = 0; d < D; d += 4) {
      const float* in = columns + static_cast<Index>(d) * kLanes + i;
      Quad lane[4];
      for (int n = 0; n < 4; ++n) lane[n] = *(const Quad*)(in + n * kLanes) * factor;
      transpose4(lane[0], lane[1], lane[2], lane[3]);
      for (int n = 0; n < 4; ++n) {
        if (i + n < count) *(LooseQuad*)(rows + (i + n) * stride + d) = lane[n];
      }
    }
  }
}

// Logits of KEY_ROWS keys and one block of queries, and their part in the maxima. When masked, keys past a lane's
// limit get -infinity.
template <bool kMasked>
__attribute__((noinline)) void logits_of(const float* keys, Index stride, const float* q_columns,
                                         int first_key, const IntVector* limits, float* logits,
                                         Vector* maxima) {
  Vector sum[KEY_ROWS][QUERY_VECTORS];
  UNROLLED for (int r = 0; r < KEY_ROWS; ++r) {
    UNROLLED for (int n = 0; n < QUERY_VECTORS; ++n) sum[r][n] = Vector{};
  }
  UNROLLED_BY_KNOB for (int d = 0; d < D; ++d) {
    Vector x[QUERY_VECTORS];
    UNROLLED for (int n = 0; n < QUERY_VECTORS; ++n) {
      x[n] = *(const Vector*)(q_columns + static_cast<Index>(d) * kLanes + n * WIDTH);
    }
    UNROLLED for (int r = 0; r < KEY_ROWS; ++r) {
      const Vector key = broadcast(keys[r * stride + d]);
      UNROLLED for (int n = 0; n < QUERY_VECTORS; ++n) sum[r][n] += key * x[n];
    }
  }
  UNROLLED for (int n = 0; n < QUERY_VECTORS; ++n) {
    Vector most = maxima[n];
    UNROLLED for (int r = 0; r < KEY_ROWS; ++r) {
      Vector s = sum[r][n];
      if constexpr (kMasked) s = limits[n] >= first_key + r ? s : broadcast(-kInfinity);
      most = larger(s, most);
      *(Vector*)(logits + r * kLanes + n * WIDTH) = s;
    }
    maxima[n] = most;
  }
}

// O^T = O^T * factors + V^T P for VALUE_COLUMNS features and one block of queries; without factors, O^T = V^T P
__attribute__((noinline)) void accumulate(const float* values, Index stride, const float* weights, int keys,
                                          const Vector* factors, float* o_columns) {
  Vector sum[VALUE_COLUMNS][QUERY_VECTORS];
  UNROLLED for (int c = 0; c < VALUE_COLUMNS; ++c) {
    UNROLLED for (int n = 0; n < QUERY_VECTORS; ++n) {
      sum[c][n] = factors ? *(const Vector*)(o_columns + c * kLanes + n * WIDTH) * factors[n] : Vector{};
    }
  }
  UNROLLED_BY_KNOB for (int j = 0; j < keys; ++j) {
    Vector x[QUERY_VECTORS];
    UNROLLED for (int n = 0; n < QUERY_VECTORS; ++n) x[n] =
        *(const Vector*)(weights + j * kLanes + n * WIDTH);
    UNROLLED for (int c = 0; c < VALUE_COLUMNS; ++c) {
      const Vector value = broadcast(values[j * stride + c]);
      UNROLLED for (int n = 0; n < QUERY_VECTORS; ++n) sum[c][n] += value * x[n];
    }
  }
  UNROLLED for (int c = 0; c < VALUE_COLUMNS; ++c) {
    UNROLLED for (int n = 0; n < QUERY_VECTORS; ++n) * (Vector*)(o_columns + c * kLanes + n * WIDTH) =
        sum[c][n];
  }
}

// Logits of a tile become weights. The running maxima and sums move on; factors get what older weights are scaled by.
__attribute__((noinline)) void softmax(float* tile, int keys, float c, const Vector* tile_maxima,
                                       Vector* maxima, Vector* sums, Vector* factors) {
  Vector most[QUERY_VECTORS], sum[QUERY_VECTORS];
  UNROLLED for (int n = 0; n < QUERY_VECTORS; ++n) {
    const Vector seen = larger(tile_maxima[n], maxima[n]);
    most[n] = seen > -kInfinity ? seen : Vector{};  // a lane that has seen no key yet has no maximum
    factors[n] = maxima[n] > -kInfinity ? exp2_of((maxima[n] - most[n]) * c) : Vector{};
    sum[n] = sums[n] * factors[n];
    maxima[n] = seen;
  }
  for (int j = 0; j < keys; ++j) {
    UNROLLED for (int n = 0; n < QUERY_VECTORS; ++n) {
      Vector* s = (Vector*)(tile + j * kLanes + n * WIDTH);
      const Vector weight = exp2_of((*s - most[n]) * c);
      sum[n] += weight;
      *s = weight;
    }
  }
  UNROLLED for (int n = 0; n < QUERY_VECTORS; ++n) sums[n] = sum[n];
}

// count rows [D] at a stride -> contiguous rows, the last one repeated up to padded rows
void pack(const float* rows, Index stride, int count, int padded, float* out) {
  for (int j = 0; j < padded; ++j) {
    std::memcpy(out + static_cast<Index>(j) * D, rows + (j < count ? j : count - 1) * stride,
                sizeof(float) * D);
  }
}

struct Scratch {
  float *q, *o, *keys, *values, *tile;
  Vector *maxima, *sums;
};

Scratch carve(float* base) {
  base = (float*)(((size_t)base + 63) / 64 * 64);
  Scratch s;
  s.q = base;
  s.o = s.q + static_cast<Index>(kQueries) * D;
  s.keys = s.o + static_cast<Index>(kQueries) * D;
  s.values = s.keys + static_cast<Index>(TILE_K) * D;
  s.tile = s.values + static_cast<Index>(TILE_K) * D;
  s.maxima = (Vector*)(s.tile + static_cast<Index>(TILE_K) * kLanes);
  s.sums = s.maxima + kQueries / WIDTH;
  return s;
}

struct Head {
  const float *q, *k, *v;
  float *o, *lse;
  Index q_stride, kv_stride;
  int S_q, S_kv;
  float scale;
};

void attend(const Head& head, int first_query, const Scratch& s) {
  const float c = std::fabs(head.scale) * kLog2e;
  const int queries = head.S_q - first_query < kQueries ? head.S_q - first_query : kQueries;
  const int blocks = (queries + kLanes - 1) / kLanes;
  const int diagonal = head.S_kv - head.S_q;  // query i sees keys up to i + diagonal

  IntVector lane;
  UNROLLED for (int n = 0; n < WIDTH; ++n) lane[n] = n;

  for (int b = 0; b < blocks; ++b) {
    const int first = first_query + b * kLanes;
    load_queries(head.q + first * head.q_stride, head.q_stride, head.S_q - first,
                 head.scale < 0 ? -1.0f : 1.0f, s.q + static_cast<Index>(b) * kLanes * D);
    UNROLLED for (int n = 0; n < QUERY_VECTORS; ++n) {
      s.maxima[b * QUERY_VECTORS + n] = broadcast(-kInfinity);
      s.sums[b * QUERY_VECTORS + n] = Vector{};
    }
  }

  const auto keys_seen = [&](int queries_end) {
    if (!causal) return head.S_kv;
    const int end = queries_end + diagonal;
    return end < 0 ? 0 : end < head.S_kv ? end : head.S_kv;
  };

  const int unit_end = keys_seen(first_query + queries);
  for (int key = 0; key < unit_end; key += TILE_K) {
    const int tile_keys = unit_end - key < TILE_K ? unit_end - key : TILE_K;
    const float* keys = head.k + key * head.kv_stride;
    const float* values = head.v + key * head.kv_stride;
    Index key_stride = head.kv_stride, value_stride = head.kv_stride;
    const int padded = (tile_keys + KEY_ROWS - 1) / KEY_ROWS * KEY_ROWS;
    if (LAYOUT == LAYOUT_packed || padded != tile_keys) {
      pack(keys, head.kv_stride, tile_keys, padded, s.keys);
      keys = s.keys;
      key_stride = D;
    }
    if (LAYOUT == LAYOUT_packed) {
      pack(values, head.kv_stride, tile_keys, tile_keys, s.values);
      values = s.values;
      value_stride = D;
    }

    for (int b = 0; b < blocks; ++b) {
      const int first = first_query + b * kLanes;
      const int end = keys_seen(first + kLanes < head.S_q ? first + kLanes : head.S_q) - key;
      const int block_keys = end < tile_keys ? end : tile_keys;
      if (block_keys <= 0) continue;
      const float* q_columns = s.q + static_cast<Index>(b) * kLanes * D;
      float* o_columns = s.o + static_cast<Index>(b) * kLanes * D;

      Vector tile_maxima[QUERY_VECTORS], factors[QUERY_VECTORS];
      UNROLLED for (int n = 0; n < QUERY_VECTORS; ++n) tile_maxima[n] = broadcast(-kInfinity);
      const bool masked = causal && key + block_keys - 1 > first + diagonal;
      const Index stride = LAYOUT == LAYOUT_packed ? D : key_stride;
      if (masked) {
        IntVector limits[QUERY_VECTORS];
        UNROLLED for (int n = 0; n < QUERY_VECTORS; ++n) limits[n] =
            lane + (first + n * WIDTH + diagonal - key);
        for (int j = 0; j < block_keys; j += KEY_ROWS) {
          logits_of<true>(keys + j * stride, stride, q_columns, j, limits, s.tile + j * kLanes, tile_maxima);
        }
      } else {
        for (int j = 0; j < block_keys; j += KEY_ROWS) {
          logits_of<false>(keys + j * stride, stride, q_columns, j, nullptr, s.tile + j * kLanes,
                           tile_maxima);
        }
      }
      softmax(s.tile, block_keys, c, tile_maxima, s.maxima + b * QUERY_VECTORS, s.sums + b * QUERY_VECTORS,
              factors);
      for (int d = 0; d < D; d += VALUE_COLUMNS) {
        accumulate(values + d, LAYOUT == LAYOUT_packed ? D : value_stride, s.tile, block_keys,
                   key ? factors : nullptr, o_columns + d * kLanes);
      }
    }
  }

  for (int b = 0; b < blocks; ++b) {
    const int first = first_query + b * kLanes;
    const int count = head.S_q - first < kLanes ? head.S_q - first : kLanes;
    float* o_columns = s.o + static_cast<Index>(b) * kLanes * D;
    if (keys_seen(first + count) == 0) std::memset(o_columns, 0, sizeof(float) * kLanes * D);
    float* factors = s.tile;
    const float* maxima = (const float*)(s.maxima + b * QUERY_VECTORS);
    const float* sums = (const float*)(s.sums + b * QUERY_VECTORS);
    for (int i = 0; i < kLanes; ++i) factors[i] = maxima[i] > -kInfinity ? 1.0f / sums[i] : 0.0f;
    for (int i = 0; i < count; ++i) {
      const float m = maxima[i];
      head.lse[first + i] = m > -kInfinity ? m * std::fabs(head.scale) + std::log(sums[i]) : -kInfinity;
    }
    store_outputs(o_columns, factors, count, head.o + first * head.q_stride, head.q_stride);
  }
}

}  // namespace

extern "C" void attention_forward(const float* q, const float* k, const float* v, float* o, float* lse,
                                  float* scratch, int* next_unit, int share, int B, int H, int H_kv, int S_q,
                                  int S_kv, float scale, int thread, int threads) {
  const Scratch s = carve(scratch + static_cast<Index>(share) * thread);
  const int heads = B * H;
  const int groups = (S_q + kQueries - 1) / kQueries;
  const int units = heads * groups;
  for (int next = thread; next < units; next += threads) {
    int unit = next;
    if (SCHEDULE == SCHEDULE_ticket) {
      unit = __atomic_fetch_add(next_unit, 1, __ATOMIC_RELAXED);
      if (unit >= units) break;
    }
    // A causal head's last queries see most keys: all heads' longest units go first.
    const int bh = causal ? unit % heads : unit / groups;
    const int group = causal ? groups - 1 - unit / heads : unit % groups;
    const Index b = bh / H;
    const int h = bh % H;
    const int h_kv = h / (H / H_kv);
    Head head;
    head.q_stride = static_cast<Index>(H) * D;
    head.kv_stride = static_cast<Index>(H_kv) * D;
    head.q = q + (b * S_q * H + h) * D;
    head.k = k + (b * S_kv * H_kv + h_kv) * D;
    head.v = v + (b * S_kv * H_kv + h_kv) * D;
    head.o = o + (b * S_q * H + h) * D;
    head.lse = lse + static_cast<Index>(bh) * S_q;
    head.S_q = S_q;
    head.S_kv = S_kv;
    head.scale = scale;
    attend(head, group * kQueries, s);
  }
}
