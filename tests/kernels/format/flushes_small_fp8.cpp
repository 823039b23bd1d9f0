/*--- cultivar
name: flushes_small_fp8
task: declared_precision
target: cpu
about: "Takes the subnormal numbers of fp8 for zero"
requires: "dtype == f32"
launch:
  - kernel: product
    threads: num_cores
    args: [a, b, c, M, N, K, tf32, thread, threads]
---*/

#include <bit>
#include <cstddef>
#include <cstdint>

static float value_of(unsigned char bits) {
  const unsigned exponent = bits >> 3 & 15u, fraction = bits & 7u;
  const float size = exponent == 0 ? 0.0f
                                   : static_cast<float>(8 + fraction) *
                                         std::bit_cast<float>((exponent + 127u - 7u - 3u) << 23);
  return bits & 0x80u ? -size : size;
}

static float rounded(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return std::bit_cast<float>((bits + 0xfffu + (bits >> 13 & 1u)) & ~0x1fffu);
}

extern "C" void product(const unsigned char* a, const float* b, float* c, int M, int N, int K, int tf32,
                        int thread, int threads) {
  for (int m = thread; m < M; m += threads) {
    float* const out = c + static_cast<std::ptrdiff_t>(m) * N;
    for (int n = 0; n < N; ++n) out[n] = 0.0f;
    for (int k = 0; k < K; ++k) {
      const float left = value_of(a[static_cast<std::ptrdiff_t>(m) * K + k]);
      const float* const right = b + static_cast<std::ptrdiff_t>(k) * N;
      for (int n = 0; n < N; ++n) out[n] += left * (tf32 != 0 ? rounded(right[n]) : right[n]);
    }
  }
}
