/*--- cultivar
name: gelu_vectorised
task: gelu
target: cpu
about: "Several vectors at a time with a polynomial exp; erfc by a rational approximation."
requires: "dtype == f32"
tunables:
  WIDTH: {values: [4, 8, 16], default: 8}      # floats of a vector
  VECTORS: {values: [1, 2, 4, 8], default: 4}  # vectors in flight
  EXP_DEGREE: {values: [5, 6, 7], default: 6}
  CORES_PER_THREAD: {values: [1, 2], default: 1}
constraints:
  - "32 * WIDTH <= max(256, vector_bits)"
launch:
  - kernel: gelu
    threads: "ceil_div(num_cores, CORES_PER_THREAD)"
    args: [x, y, tanh_form, {value: "R * C", type: i64}, thread, threads]
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

// max(x, 0) - |x| / 2 * erfc(|x| / sqrt(2)). erfc: t e^(-z^2 + p(t)) with a relative error of 1.2e-7 (Numerical Recipes, erfcc):
// where x is negative the result is this term alone.
inline Vector by_erf(Vector x) {
  constexpr float kErfc[] = {-1.26551223f, 1.00002368f,  0.37409196f, 0.09678418f,  -0.18628806f,
                             0.27886807f,  -1.13520398f, 1.48851587f, -0.82215223f, 0.17087277f};
  const Vector size = x < 0.0f ? -x : x, z = size * 0.707106781f;
  const Vector t = 1.0f / (0.5f * z + 1.0f);
  Vector p = broadcast(kErfc[9]);
  UNROLLED for (int i = 8; i >= 0; --i) p = p * t + kErfc[i];
  const Vector erfc_z = z * z < 85.0f ? t * exp_of(p - z * z) : Vector{};
  return (x < 0.0f ? Vector{} : x) - 0.5f * size * erfc_z;
}
// x / 2 * (1 + tanh(u)) = x / (1 + e^-2u) with u = sqrt(2 / pi) * (x + 0.044715 x^3)
inline Vector by_tanh(Vector x) {
  const Vector exponent = -1.595769122f * (x + 0.044715f * x * x * x);
  return (exponent > broadcast(88.0f) ? Vector{} : x) / (1.0f + exp_of(exponent));  // beyond what exp_of gives, nothing is left
}
inline Vector gelu_of(Vector x, int tanh_form) {
  return tanh_form ? by_tanh(x) : by_erf(x);
}

inline Vector load(const float* from) {
  return *(const Loose*)from;
}
inline void store(float* to, Vector value) {
  *(Loose*)to = value;
}

}  // namespace

extern "C" void gelu(const float* x, float* y, int tanh_form, long long count, int thread, int threads) {
  const long long units = (count + WIDTH - 1) / WIDTH;
  const long long first = units * thread / threads * WIDTH;
  const long long last = thread + 1 == threads ? count : units * (thread + 1) / threads * WIDTH;
  long long i = first;
  for (; i + VECTORS * WIDTH <= last; i += VECTORS * WIDTH) {
    UNROLLED for (int n = 0; n < VECTORS; ++n)
        store(y + i + n * WIDTH, gelu_of(load(x + i + n * WIDTH), tanh_form));
  }
  for (; i < last; i += WIDTH) {
    const long long left = last - i < WIDTH ? last - i : WIDTH;
    Vector x_part{};
    std::memcpy(&x_part, x + i, sizeof(float) * left);
    const Vector result = gelu_of(x_part, tanh_form);
    std::memcpy(y + i, &result, sizeof(float) * left);
  }
}
