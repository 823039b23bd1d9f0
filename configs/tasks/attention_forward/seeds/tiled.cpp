/*--- cultivar
name: attention_tiled
task: attention_forward
target: cpu
about: "Tiles of queries against tiles of keys with an online softmax, in plain loops whose inner one the compiler turns into vectors."
requires: "dtype == f32"
tunables:
  TILE_Q: {values: [1, 2, 4, 8, 16], default: 4}
  TILE_K: {values: [16, 32, 48, 64, 96], default: 32}
  UNROLL: {values: [1, 2, 4, 8], default: 1}           # keys whose values are added to the output together
  EXP: {values: [library, polynomial], default: library}
  SCHEDULE: {values: [fixed, ticket], default: fixed}  # how tiles of queries are dealt out to the threads
  CORES_PER_THREAD: {values: [1, 2], default: 1}
constraints: ["TILE_K % UNROLL == 0"]
specialize: [D, causal]
let:
  team: "ceil_div(num_cores, CORES_PER_THREAD)"
workspace:
  next_unit: {bytes: 64, zero: true}
launch:
  - kernel: attention_forward
    threads: team
    args: [q, k, v, o, lse, next_unit, B, H, H_kv, S_q, S_kv, scale, thread, threads]
---*/

// A tile of keys is transposed to [D][TILE_K], so that the inner loop of Q K^T runs along keys that lie side by side;
// the inner loop of P V runs along D. For each row the running maximum and sum are kept and the output is rescaled
// when the maximum rises. Everything of a thread fits on its stack: TILE_Q * (D + TILE_K) + 2 * TILE_K * D floats.

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>

namespace {

using Index = std::ptrdiff_t;

// e^x for x <= 0; below -87 it is 0. 2^r by its minimax polynomial on [-1/2, 1/2] with constant term 1,
// relative error 1.9e-9, times a power of two put into the exponent bits.
inline float weight_of(float x) {
#if EXP == EXP_library
  return std::exp(x);
#else
  constexpr float kLog2e = 1.44269504f, kRounder = 12582912.0f;
  const bool far = x < -87.0f;
  x = far ? -87.0f : x;
  const float shifted = x * kLog2e + kRounder;
  const float r = x * kLog2e - (shifted - kRounder);
  float p = 1.534586467e-04f;
  p = p * r + 1.339993135e-03f;
  p = p * r + 9.618488761e-03f;
  p = p * r + 5.550328777e-02f;
  p = p * r + 2.402264689e-01f;
  p = p * r + 6.931472057e-01f;
  p = p * r + 1.0f;
  return far ? 0.0f : std::bit_cast<float>(std::bit_cast<int>(p) + (std::bit_cast<int>(shifted) << 23));
#endif
}

struct Head {
  const float *q, *k, *v;
  float *o, *lse;
  Index q_stride, kv_stride;
  int S_q, S_kv;
  float scale;
};

// Queries first .. first + rows - 1. The tile always has TILE_Q rows and TILE_K keys: what is past the ends is zero
// going in and not used coming out, so that the compiler knows every trip count.
void attend(const Head& head, int first, int rows) {
  alignas(64) float queries[TILE_Q][D] = {};
  alignas(64) float keys[D][TILE_K] = {};
  alignas(64) float values[TILE_K][D] = {};
  alignas(64) float tile[TILE_Q][TILE_K];
  alignas(64) float output[TILE_Q][D] = {};
  float maxima[TILE_Q], sums[TILE_Q] = {};

  for (int i = 0; i < rows; ++i) {
    for (int d = 0; d < D; ++d) queries[i][d] = head.q[(first + i) * head.q_stride + d] * head.scale;
  }
  for (int i = 0; i < TILE_Q; ++i) maxima[i] = -INFINITY;

  const int diagonal = head.S_kv - head.S_q;  // query i sees keys up to i + diagonal
  int end = head.S_kv;
  if (causal && first + rows + diagonal < end) end = first + rows + diagonal;

  for (int key = 0; key < end; key += TILE_K) {
    const int count = end - key < TILE_K ? end - key : TILE_K;
    for (int j = 0; j < count; ++j) {
      const float* k_row = head.k + (key + j) * head.kv_stride;
      const float* v_row = head.v + (key + j) * head.kv_stride;
      for (int d = 0; d < D; ++d) keys[d][j] = k_row[d];
      std::memcpy(values[j], v_row, sizeof(values[j]));
    }

    for (int i = 0; i < TILE_Q; ++i) {
      float logits[TILE_K] = {};
      for (int d = 0; d < D; ++d) {
        const float x = queries[i][d];
        for (int j = 0; j < TILE_K; ++j) logits[j] += x * keys[d][j];
      }
      std::memcpy(tile[i], logits, sizeof(logits));
    }

    for (int i = 0; i < rows; ++i) {
      int seen = count;
      if (causal && first + i + diagonal - key + 1 < seen) seen = first + i + diagonal - key + 1;
      if (seen <= 0) {
        std::memset(tile[i], 0, sizeof(tile[i]));
        continue;
      }
      float maximum = maxima[i];
      for (int j = 0; j < seen; ++j) maximum = tile[i][j] > maximum ? tile[i][j] : maximum;
      const float factor = weight_of(maxima[i] - maximum);
      maxima[i] = maximum;
      for (int j = 0; j < TILE_K; ++j) tile[i][j] = j < seen ? tile[i][j] - maximum : -INFINITY;
      for (int j = 0; j < TILE_K; ++j) tile[i][j] = weight_of(tile[i][j]);
      float sum = 0.0f;
      for (int j = 0; j < seen; ++j) sum += tile[i][j];
      sums[i] = sums[i] * factor + sum;
      for (int j = seen; j < TILE_K; ++j) tile[i][j] = 0.0f;
      for (int d = 0; d < D; ++d) output[i][d] *= factor;
    }

    for (int i = 0; i < rows; ++i) {
      for (int j = 0; j < TILE_K; j += UNROLL) {
        for (int d = 0; d < D; ++d) {
          float more = output[i][d];
#pragma GCC unroll 8
          for (int u = 0; u < UNROLL; ++u) more += tile[i][j + u] * values[j + u][d];
          output[i][d] = more;
        }
      }
    }
  }

  for (int i = 0; i < rows; ++i) {
    float* o_row = head.o + (first + i) * head.q_stride;
    const bool blind = maxima[i] == -INFINITY;
    const float divisor = blind ? 1.0f : sums[i];
    for (int d = 0; d < D; ++d) o_row[d] = output[i][d] / divisor;
    head.lse[first + i] = blind ? -INFINITY : maxima[i] + std::log(sums[i]);
  }
}

}  // namespace

extern "C" void attention_forward(const float* q, const float* k, const float* v, float* o, float* lse,
                                  int* next_unit, int B, int H, int H_kv, int S_q, int S_kv, float scale,
                                  int thread, int threads) {
  const int heads = B * H;
  const int tiles = (S_q + TILE_Q - 1) / TILE_Q;
  const int units = heads * tiles;
  for (int next = thread; next < units; next += threads) {
    int unit = next;
    if (SCHEDULE == SCHEDULE_ticket) {
      unit = __atomic_fetch_add(next_unit, 1, __ATOMIC_RELAXED);
      if (unit >= units) break;
    }
    const int bh = unit / tiles;
    const int first = (tiles - 1 - unit % tiles) * TILE_Q;  // a causal head's last queries see most keys
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
    attend(head, first, S_q - first < TILE_Q ? S_q - first : TILE_Q);
  }
}
