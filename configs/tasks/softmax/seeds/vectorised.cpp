/*--- cultivar
name: softmax_vectorised
task: softmax
target: cpu
about: "Several vectors of a row at a time with a polynomial exp; the row is read once from memory, its exponentials kept or made again."
requires: "dtype == f32"
tunables:
  WIDTH: {values: [4, 8, 16], default: 8}        # floats of a vector
  VECTORS: {values: [1, 2, 4, 8], default: 1}    # vectors in flight
  EXP_DEGREE: {values: [5, 6, 7], default: 7}
  SECOND_PASS: {values: [keep, again], default: keep}  # exponentials: stored and scaled, or computed twice
  CHUNK: {values: [1, 4, 16, 64], default: 16}   # rows that a thread takes at a time
  CORES_PER_THREAD: {values: [1, 2], default: 1}
constraints:
  - "32 * WIDTH <= max(256, vector_bits)"
let:
  team: "ceil_div(num_cores, CORES_PER_THREAD)"
launch:
  - kernel: softmax
    threads: team
    args: [x, y, R, C, thread, threads]
---*/

// Three passes over a row: maximum; sum of exponentials; result. With SECOND_PASS = keep the exponentials are written
// to y and scaled there, with again y is written once and each exponential is computed twice. The columns past the
// last whole vector are copied to a vector padded with -infinity, whose exponentials are not counted.

#include <cmath>
#include <cstddef>
#include <cstring>

namespace {

typedef float Vector __attribute__((vector_size(4 * WIDTH), may_alias));
typedef float Loose __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));
typedef int IntVector __attribute__((vector_size(4 * WIDTH), may_alias));

constexpr int kStep = VECTORS * WIDTH;
constexpr float kLeast = -INFINITY;
constexpr float kLog2e = 1.44269504f;

#define UNROLLED _Pragma("GCC unroll 32")

inline Vector broadcast(float value) {
  return value - Vector{};
}
// Of a NaN and a number, these give b.
inline Vector larger(Vector a, Vector b) {
  return a > b ? a : b;
}
inline Vector smaller(Vector a, Vector b) {
  return a < b ? a : b;
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

// e^z for z <= 0; e^-87, about 2^-126, stands for anything smaller. NaN gives NaN: nothing is added to its exponent.
inline Vector exp_of(Vector z) {
  constexpr float kRounder =
      12582912.0f;  // 1.5 * 2^23: its sum with a float has the nearest integer in the low bits
  z = larger(broadcast(-87.0f), z);
  const Vector shifted = z * kLog2e + kRounder;
  const Vector r = z * kLog2e - (shifted - kRounder);  // fused: the product is not rounded
  Vector p = broadcast(kExp2[EXP_DEGREE]);
  UNROLLED for (int i = EXP_DEGREE - 1; i >= 0; --i) p = p * r + kExp2[i];
  return (Vector)((IntVector)p + ((IntVector)smaller(shifted, broadcast(kRounder)) << 23));
}

inline Vector load(const float* from) {
  return *(const Loose*)from;
}
inline void store(float* to, Vector value) {
  *(Loose*)to = value;
}

void softmax_of(const float* in, float* out, int C) {
  const int steps_end = C / kStep * kStep;
  const int vectors_end = C / WIDTH * WIDTH;
  const int left = C - vectors_end;
  Vector tail = broadcast(kLeast);
  std::memcpy(&tail, in + vectors_end, sizeof(float) * left);

  Vector most[VECTORS];
  UNROLLED for (int n = 0; n < VECTORS; ++n) most[n] = tail;
  for (int c = 0; c < steps_end; c += kStep) {
    UNROLLED for (int n = 0; n < VECTORS; ++n) most[n] = larger(load(in + c + n * WIDTH), most[n]);
  }
  for (int c = steps_end; c < vectors_end; c += WIDTH) most[0] = larger(load(in + c), most[0]);
  UNROLLED for (int n = 1; n < VECTORS; ++n) most[0] = larger(most[n], most[0]);
  float maximum = kLeast;
  UNROLLED for (int n = 0; n < WIDTH; ++n) maximum = most[0][n] > maximum ? most[0][n] : maximum;

  Vector sums[VECTORS];
  UNROLLED for (int n = 0; n < VECTORS; ++n) sums[n] = Vector{};
  for (int c = 0; c < steps_end; c += kStep) {
    UNROLLED for (int n = 0; n < VECTORS; ++n) {
      const Vector weight = exp_of(load(in + c + n * WIDTH) - maximum);
      if (SECOND_PASS == SECOND_PASS_keep) store(out + c + n * WIDTH, weight);
      sums[n] += weight;
    }
  }
  for (int c = steps_end; c < vectors_end; c += WIDTH) {
    const Vector weight = exp_of(load(in + c) - maximum);
    if (SECOND_PASS == SECOND_PASS_keep) store(out + c, weight);
    sums[0] += weight;
  }
  const Vector tail_weight = exp_of(tail - maximum);
  UNROLLED for (int n = 1; n < VECTORS; ++n) sums[0] += sums[n];
  float sum = 0.0f;
  UNROLLED for (int n = 0; n < WIDTH; ++n) sum += sums[0][n];
  for (int n = 0; n < left; ++n) sum += tail_weight[n];

  const auto result = [&](int c) {
    return (SECOND_PASS == SECOND_PASS_keep ? load(out + c) : exp_of(load(in + c) - maximum)) / sum;
  };
  for (int c = 0; c < steps_end; c += kStep) {
    UNROLLED for (int n = 0; n < VECTORS; ++n) store(out + c + n * WIDTH, result(c + n * WIDTH));
  }
  for (int c = steps_end; c < vectors_end; c += WIDTH) store(out + c, result(c));
  const Vector last = tail_weight / sum;
  std::memcpy(out + vectors_end, &last, sizeof(float) * left);
}

}  // namespace

extern "C" void softmax(const float* x, float* y, int R, int C, int thread, int threads) {
  for (std::ptrdiff_t row = static_cast<std::ptrdiff_t>(thread) * CHUNK; row < R;
       row += static_cast<std::ptrdiff_t>(threads) * CHUNK) {
    const std::ptrdiff_t end = row + CHUNK < R ? row + CHUNK : R;
    for (std::ptrdiff_t r = row; r < end; ++r) softmax_of(x + r * C, y + r * C, C);
  }
}
