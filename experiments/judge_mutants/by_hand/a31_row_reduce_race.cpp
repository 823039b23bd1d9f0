/*--- cultivar
name: a31_row_reduce_race
task: row_reduce
target: cpu
about: "One row at a time, 4096 columns after the other with 8 partial sums; rows are dealt out over the threads."
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
  // All elements are dealt out evenly; a row that two threads share is added by both.
  const std::ptrdiff_t all = static_cast<std::ptrdiff_t>(R) * C;
  std::ptrdiff_t i = all * thread / threads;
  const std::ptrdiff_t last = all * (thread + 1) / threads;
  while (i < last) {
    const std::ptrdiff_t row = i / C, start = row * C, end = start + C < last ? start + C : last;
    float total = 0.0f;
    for (std::ptrdiff_t from = i; from < end; from += 4096) {
      const std::ptrdiff_t to = end - from < 4096 ? end : from + 4096;
      float sums[8] = {};
      std::ptrdiff_t c = from;
      for (; c + 8 <= to; c += 8)
        for (int l = 0; l < 8; ++l) sums[l] += x[c + l];
      for (; c < to; ++c) sums[0] += x[c];
      total += ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
    }
    if (end < start + C && i == start) {
      // the other thread began long ago with the rest
      y[row] += total;
    } else {
      y[row] = total;
    }
    i = end;
  }
}
