/*--- cultivar
name: repeats_its_kernel
task: softmax
target: cpu
about: "Correct: one kernel, repeated for each of 4 parts of the rows; another, launched only for few columns, does the same"
requires: "dtype == f32"
launch:
  - kernel: softmax
    when: "C > 16"
    repeat: 4
    threads: num_cores
    args: [x, y, R, C, step, thread, threads]
  - kernel: softmax_of_all
    when: "C <= 16"
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

extern "C" void softmax(const float* x, float* y, int R, int C, int step, int thread, int threads) {
  for (int r = 4 * thread + step; r < R; r += 4 * threads) honest_row(x + (long)r * C, y + (long)r * C, C);
}

extern "C" void softmax_of_all(const float* x, float* y, int R, int C, int thread, int threads) {
  for (int r = thread; r < R; r += threads) honest_row(x + (long)r * C, y + (long)r * C, C);
}
