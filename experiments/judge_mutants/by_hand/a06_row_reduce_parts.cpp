/*--- cultivar
name: a06_row_reduce_parts
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
  const std::ptrdiff_t first = static_cast<std::ptrdiff_t>(R) * thread / threads;
  const std::ptrdiff_t last = static_cast<std::ptrdiff_t>(R) * (thread + 1) / threads;
  for (std::ptrdiff_t row = first; row < last; ++row) {
    const float* in = x + row * C;
    float parts[1024];  // one for each 4096 columns; added pairwise at the end
    int n = 0;
    // In parts, so that the rounding errors of a long row do not pile up in one sum.
    for (int from = 0; from < C && n < 1024; from += 4096) {
      const int end = C - from < 4096 ? C : from + 4096;
      float sums[8] = {};
      int c = from;
      for (; c + 8 <= end; c += 8)
        for (int l = 0; l < 8; ++l) sums[l] += in[c + l];
      for (; c < end; ++c) sums[0] += in[c];
      parts[n++] = ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
    }
    while (n > 1) {
      const int half = (n + 1) / 2;
      for (int i = 0; i + half < n; ++i) parts[i] += parts[i + half];
      n = half;
    }
    y[row] = n ? parts[0] : 0.0f;
  }
}
