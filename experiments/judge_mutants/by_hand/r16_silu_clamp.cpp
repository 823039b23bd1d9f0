/*--- cultivar
name: r16_silu_clamp
task: silu_mul
target: cpu
about: "One loop over the elements, with an exponential by a polynomial that the compiler can vectorise."
requires: "dtype == f32"
launch:
  - kernel: silu_mul
    threads: num_cores
    args: [gate, up, y, {value: "R * C", type: i64}, thread, threads]
---*/

#include <cstring>

namespace {

// e^z for -87 <= z <= 88, where the exponent fits; what is beyond counts as -87 or 88, where the sigmoid is 1 or 0.
inline float exp_of(float z) {
  constexpr float kRounder = 12582912.0f;
  z = z < -87.0f ? -87.0f : z;
  z = z > 88.0f ? 88.0f : z;
  const float shifted = z * 1.44269504f + kRounder;
  const float r = z * 1.44269504f - (shifted - kRounder);
  float p = 1.520197680e-05f;
  p = p * r + 1.546928867e-04f;
  p = p * r + 1.333392232e-03f;
  p = p * r + 9.618027263e-03f;
  p = p * r + 5.550410354e-02f;
  p = p * r + 2.402265120e-01f;
  p = p * r + 6.931471807e-01f;
  p = p * r + 1.0f;
  int bits, exponent;
  std::memcpy(&bits, &p, 4);
  std::memcpy(&exponent, &shifted, 4);
  bits += static_cast<int>(static_cast<unsigned>(exponent) << 23);
  std::memcpy(&p, &bits, 4);
  return p;
}

}  // namespace

extern "C" void silu_mul(const float* gate, const float* up, float* y, long long count, int thread, int threads) {
  const long long last = count * (thread + 1) / threads;
  for (long long i = count * thread / threads; i < last; ++i) {
    const float g = gate[i];
    y[i] = g / (1.0f + exp_of(-g)) * up[i];
  }
}
