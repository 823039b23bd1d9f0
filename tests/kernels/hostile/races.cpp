/*--- cultivar
name: races
task: softmax
target: cpu
about: "Both threads add to the same sums without synchronization."
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
  if (thread == 0) {
    for (int r = 0; r < R; ++r) honest_row(x + (long)r * C, y + (long)r * C, C);
  } else {
    // For about as long as the other works, so that some of it comes after a row is done.
    for (long again = 0; again < 32l * C; ++again)
      for (int r = 0; r < R; ++r) *(volatile float*)(y + (long)r * C) = 0.25f;
  }
}
