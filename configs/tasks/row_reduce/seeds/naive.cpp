/*--- cultivar
name: row_reduce_naive
task: row_reduce
target: cpu
about: "One row at a time with 8 partial sums; rows are dealt out over the threads."
requires: "dtype == f32"
let:
  team: "num_cores"
launch:
  - kernel: row_reduce
    threads: team
    args: [x, y, R, C, thread, threads]
---*/

// The baseline. Any shape is taken.

#include <cstddef>

extern "C" void row_reduce(const float* x, float* y, int R, int C, int thread, int threads) {
  const std::ptrdiff_t first = static_cast<std::ptrdiff_t>(R) * thread / threads;
  const std::ptrdiff_t last = static_cast<std::ptrdiff_t>(R) * (thread + 1) / threads;
  for (std::ptrdiff_t row = first; row < last; ++row) {
    const float* in = x + row * C;
    float sums[8] = {};
    int c = 0;
    for (; c + 8 <= C; c += 8)
      for (int l = 0; l < 8; ++l) sums[l] += in[c + l];
    for (; c < C; ++c) sums[0] += in[c];
    y[row] = ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
  }
}
