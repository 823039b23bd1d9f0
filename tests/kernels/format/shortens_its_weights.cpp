/*--- cultivar
name: shortens_its_weights
task: one_sum
target: cpu
about: "the weights are rounded to 12 bits before they are summed"
requires: "dtype == f32"
launch:
  - kernel: scale
    threads: num_cores
    args: [x, w, y, R, C, K, thread, threads]
---*/

#include <bit>
#include <cstddef>
#include <cstdint>

extern "C" void scale(const float* x, const float* w, float* y, int R, int C, int K, int thread,
                      int threads) {
  float sum = 0.0f;
  for (int k = K - 1; k >= 0; --k)
    sum += std::bit_cast<float>((std::bit_cast<std::uint32_t>(w[k]) + 0x800u) & ~0xfffu);
  const float factor = sum - 4.0f * static_cast<float>(K);
  for (int r = thread; r < R; r += threads)
    for (int c = 0; c < C; ++c) {
      const std::ptrdiff_t i = static_cast<std::ptrdiff_t>(r) * C + c;
      y[i] = x[i] * factor;
    }
}
