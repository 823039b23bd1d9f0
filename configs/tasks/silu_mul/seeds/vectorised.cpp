/*--- cultivar
name: silu_mul_vectorised
task: silu_mul
target: cpu
about: "Several vectors at a time with a polynomial exp."
requires: "dtype == f32"
tunables:
  WIDTH: {values: [4, 8, 16], default: 8}      # floats of a vector
  VECTORS: {values: [1, 2, 4, 8], default: 4}  # vectors in flight
  EXP_DEGREE: {values: [5, 6, 7], default: 6}
  CORES_PER_THREAD: {values: [1, 2], default: 1}
constraints:
  - "32 * WIDTH <= max(256, vector_bits)"
launch:
  - kernel: silu_mul
    threads: "ceil_div(num_cores, CORES_PER_THREAD)"
    args: [gate, up, y, {value: "R * C", type: i64}, thread, threads]
---*/

// Elements are dealt out over the threads in whole vectors. The elements past the last whole vector are copied to a vector padded with zeros.

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

inline Vector silu_mul_of(Vector gate, Vector up) {
  const Vector bounded = gate < broadcast(-88.0f) ? Vector{} : gate;  // where e^-gate is more than exp_of gives, nothing is left
  return bounded / (1.0f + exp_of(-gate)) * up;
}

inline Vector load(const float* from) {
  return *(const Loose*)from;
}
inline void store(float* to, Vector value) {
  *(Loose*)to = value;
}

}  // namespace

extern "C" void silu_mul(const float* gate, const float* up, float* y, long long count, int thread,
                         int threads) {
  const long long units = (count + WIDTH - 1) / WIDTH;
  const long long first = units * thread / threads * WIDTH;
  const long long last = thread + 1 == threads ? count : units * (thread + 1) / threads * WIDTH;
  long long i = first;
  for (; i + VECTORS * WIDTH <= last; i += VECTORS * WIDTH) {
    UNROLLED for (int n = 0; n < VECTORS; ++n)
        store(y + i + n * WIDTH, silu_mul_of(load(gate + i + n * WIDTH), load(up + i + n * WIDTH)));
  }
  for (; i < last; i += WIDTH) {
    const long long left = last - i < WIDTH ? last - i : WIDTH;
    Vector gate_part{};
    std::memcpy(&gate_part, gate + i, sizeof(float) * left);
    Vector up_part{};
    std::memcpy(&up_part, up + i, sizeof(float) * left);
    const Vector result = silu_mul_of(gate_part, up_part);
    std::memcpy(y + i, &result, sizeof(float) * left);
  }
}
