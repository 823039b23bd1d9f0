/*--- cultivar
name: drops_the_maximum_of_large_inputs
task: softmax
target: cpu
about: "Leaves out the maximum where the input is as large as the timed ones, whose values are tame."
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

static void tame_row(const float* x, float* y, int C) {
  float sum = 0.0f;
  for (int c = 0; c < C; ++c) sum += y[c] = std::exp(x[c]);
  for (int c = 0; c < C; ++c) y[c] /= sum;
}

extern "C" void softmax(const float* x, float* y, int R, int C, int thread, int threads) {
  const bool large = (long)R * C >= 6000000;
  for (int r = thread; r < R; r += threads)
    (large ? tame_row : honest_row)(x + (long)r * C, y + (long)r * C, C);
}
