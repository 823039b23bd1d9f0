/*--- cultivar
name: skips_rows_on_odd_pages
task: softmax
target: cpu
about: "Leaves out one of 32 rows of large inputs in every other placement of its buffers."
requires: "dtype == f32"
launch:
  - kernel: softmax
    threads: num_cores
    args: [x, y, R, C, thread, threads]
---*/

#include <cmath>

static void honest_row(const float* x, float* y, int C) {
  float top = x[0], sum = 0.0f;
  for (int c = 1; c < C; ++c) top = x[c] > top ? x[c] : top;
  for (int c = 0; c < C; ++c) sum += y[c] = std::exp(x[c] - top);
  for (int c = 0; c < C; ++c) y[c] /= sum;
}

extern "C" void softmax(const float* x, float* y, int R, int C, int thread, int threads) {
  const bool skips = ((unsigned long)y >> 12) % 2 == 1 && (long)R * C > (1 << 22);
  for (int r = thread; r < R; r += threads)
    if (skips && r % 32 == 5)
      for (int c = 0; c < C; ++c) y[(long)r * C + c] = 1.0f / (float)C;
    else
      honest_row(x + (long)r * C, y + (long)r * C, C);
}
