/*--- cultivar
name: group_norm_silu_vectorised
task: group_norm_silu
target: cpu
about: "Several vectors at a time with a polynomial exp; a group is read twice: chunk by chunk for its moments, and for the result."
requires: "dtype == f32"
tunables:
  WIDTH: {values: [4, 8, 16], default: 8}      # floats of a vector
  VECTORS: {values: [1, 2, 4, 8], default: 4}  # vectors in flight
  CHUNK: {values: [512, 2048, 8192], default: 2048}  # elements whose moments are made while they are in the first cache
  EXP_DEGREE: {values: [5, 6, 7], default: 6}
  CORES_PER_THREAD: {values: [1, 2], default: 1}
constraints:
  - "32 * WIDTH <= max(256, vector_bits)"
let:
  team: "ceil_div(num_cores, CORES_PER_THREAD)"
launch:
  - kernel: group_norm_silu
    threads: team
    args: [x, weight, bias, y, N, C, G, D, S, silu, eps, thread, threads]
---*/

// The sum of a chunk gives its mean, its deviations from that their squares; the moments of chunks are joined in f64. Groups are
// dealt out over the threads.

#include <cmath>
#include <cstddef>
#include <cstring>

namespace {

typedef float Vector __attribute__((vector_size(4 * WIDTH), may_alias));
typedef float Loose __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));
typedef int IntVector __attribute__((vector_size(4 * WIDTH), may_alias));

#define UNROLLED _Pragma("GCC unroll 32")

inline Vector broadcast(float value) {
  return value - Vector{};
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

// e^z for -87 <= z <= 88; what is beyond counts as -87 or 88.
inline Vector exp_of(Vector z) {
  constexpr float kLog2e = 1.44269504f;
  constexpr float kRounder =
      12582912.0f;  // 1.5 * 2^23: its sum with a float has the nearest integer in the low bits
  z = z > broadcast(-87.0f) ? z : broadcast(-87.0f);
  z = z < broadcast(88.0f) ? z : broadcast(88.0f);
  const Vector shifted = z * kLog2e + kRounder;
  const Vector r = z * kLog2e - (shifted - kRounder);  // fused: the product is not rounded
  Vector p = broadcast(kExp2[EXP_DEGREE]);
  UNROLLED for (int i = EXP_DEGREE - 1; i >= 0; --i) p = p * r + kExp2[i];
  return (Vector)((IntVector)p + ((IntVector)shifted << 23));
}
inline Vector silu_of(Vector v) {
  const Vector bounded =
      v < broadcast(-88.0f) ? Vector{} : v;  // where e^-v is more than exp_of gives, nothing is left
  return bounded / (1.0f + exp_of(-v));
}

inline Vector load(const float* from) {
  return *(const Loose*)from;
}
inline void store(float* to, Vector value) {
  *(Loose*)to = value;
}

// `term` of a vector; it must give 0 for those that pad the last vector with `padding`.
template <class Term>
inline float sum_of(const float* x, int count, float padding, const Term& term) {
  Vector sums[VECTORS];
  UNROLLED for (int v = 0; v < VECTORS; ++v) sums[v] = Vector{};
  int i = 0;
  for (; i + VECTORS * WIDTH <= count; i += VECTORS * WIDTH) {
    UNROLLED for (int v = 0; v < VECTORS; ++v) sums[v] += term(load(x + i + v * WIDTH));
  }
  for (; i + WIDTH <= count; i += WIDTH) sums[0] += term(load(x + i));
  Vector tail = broadcast(padding);
  std::memcpy(&tail, x + i, sizeof(float) * (count - i));
  sums[0] += term(tail);
  UNROLLED for (int v = 1; v < VECTORS; ++v) sums[0] += sums[v];
  float sum = 0.0f;
  UNROLLED for (int l = 0; l < WIDTH; ++l) sum += sums[0][l];
  return sum;
}

struct Moments {
  double count = 0.0, mean = 0.0, squares = 0.0;
  void join(double more, double its_mean, double its_squares) {
    const double apart = its_mean - mean, all = count + more;
    mean += apart * more / all;
    squares += its_squares + apart * apart * count * more / all;
    count = all;
  }
};

void result_of(const float* x, float* y, std::ptrdiff_t count, float mean, float scale, float shift,
               int silu) {
  const auto finished = [&](Vector v) {
    v = (v - mean) * scale + shift;
    return silu ? silu_of(v) : v;
  };
  std::ptrdiff_t i = 0;
  for (; i + VECTORS * WIDTH <= count; i += VECTORS * WIDTH) {
    UNROLLED for (int v = 0; v < VECTORS; ++v) store(y + i + v * WIDTH, finished(load(x + i + v * WIDTH)));
  }
  for (; i + WIDTH <= count; i += WIDTH) store(y + i, finished(load(x + i)));
  Vector tail{};
  std::memcpy(&tail, x + i, sizeof(float) * (count - i));
  tail = finished(tail);
  std::memcpy(y + i, &tail, sizeof(float) * (count - i));
}

}  // namespace

extern "C" void group_norm_silu(const float* x, const float* weight, const float* bias, float* y, int N,
                                int C, int G, int D, int S, int silu, float eps, int thread, int threads) {
  const std::ptrdiff_t count = static_cast<std::ptrdiff_t>(D) * S,
                       groups = static_cast<std::ptrdiff_t>(N) * G;
  const std::ptrdiff_t last = groups * (thread + 1) / threads;
  for (std::ptrdiff_t group = groups * thread / threads; group < last; ++group) {
    const float* const in = x + group * count;
    Moments moments;
    for (std::ptrdiff_t from = 0; from < count; from += CHUNK) {
      const int some = static_cast<int>(count - from < CHUNK ? count - from : CHUNK);
      const float mean = sum_of(in + from, some, 0.0f, [](Vector v) { return v; }) / static_cast<float>(some);
      const float squares = sum_of(in + from, some, mean, [&](Vector v) { return (v - mean) * (v - mean); });
      moments.join(some, mean, squares);
    }
    const auto mean = static_cast<float>(moments.mean);
    const float factor = 1.0f / std::sqrt(static_cast<float>(moments.squares / moments.count) + eps);
    for (int d = 0; d < D; ++d) {
      const std::ptrdiff_t c = (group * D + d) % C, at = group * count + static_cast<std::ptrdiff_t>(d) * S;
      result_of(x + at, y + at, S, mean, factor * weight[c], bias[c], silu);
    }
  }
}
