/*--- cultivar
name: r02_row_reduce_levels
task: row_reduce
target: cpu
about: "Pairwise summation without recursion: sums of 128 columns are added as the digits of a binary counter are."
requires: "dtype == f32"
launch:
  - kernel: row_reduce
    threads: num_cores
    args: [x, y, R, C, thread, threads]
---*/

// levels[l] holds the sum of 2^l blocks while bit l of the number of blocks is set.

#include <cstddef>

namespace {

constexpr int kBlock = 128;
constexpr int kLevels = 20;

float block_sum(const float* in, int count) {
  float sums[8] = {};
  int c = 0;
  for (; c + 8 <= count; c += 8)
    for (int l = 0; l < 8; ++l) sums[l] += in[c + l];
  for (; c < count; ++c) sums[0] += in[c];
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

}  // namespace

extern "C" void row_reduce(const float* x, float* y, int R, int C, int thread, int threads) {
  const std::ptrdiff_t first = static_cast<std::ptrdiff_t>(R) * thread / threads;
  const std::ptrdiff_t last = static_cast<std::ptrdiff_t>(R) * (thread + 1) / threads;
  for (std::ptrdiff_t row = first; row < last; ++row) {
    const float* in = x + row * C;
    float levels[kLevels] = {};
    unsigned blocks = 0;
    for (int c = 0; c < C; c += kBlock, ++blocks) {
      float sum = block_sum(in + c, C - c < kBlock ? C - c : kBlock);
      for (int l = 0; l < kLevels; ++l) {
        if ((blocks >> l & 1) == 0) {
          levels[l] = sum;
          break;
        }
        sum += levels[l];
        levels[l] = 0.0f;
      }
    }
    float total = 0.0f;
    for (int l = 0; l < kLevels; ++l) total += levels[l];
    y[row] = total;
  }
}
