/*--- cultivar
name: leaves_a_wide_gap_around_a_holdout
task: softmax
target: cpu
about: "Correct, but claims nothing within a factor of three of a holdout, in both dimensions."
requires: "dtype == f32 && (R < 1000 || R > 8000 || C < 450 || C > 4000 || C == 1024 && R == 8192)"
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
  for (int r = thread; r < R; r += threads) honest_row(x + (long)r * C, y + (long)r * C, C);
}
