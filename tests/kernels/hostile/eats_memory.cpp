/*--- cultivar
name: eats_memory
task: softmax
target: cpu
about: "Allocates and touches memory until none is left."
requires: "dtype == f32"
launch:
  - kernel: softmax
    threads: num_cores
    args: [x, y, R, C, thread, threads]
---*/

#include <cmath>
#include <cstdlib>

static void honest_row(const float* x, float* y, int C) {
  float top = x[0], sum = 0.0f;
  for (int c = 1; c < C; ++c) top = x[c] > top ? x[c] : top;
  for (int c = 0; c < C; ++c) sum += y[c] = std::exp(x[c] - top);
  for (int c = 0; c < C; ++c) y[c] /= sum;
}

extern "C" void softmax(const float* x, float* y, int R, int C, int thread, int threads) {
  for (;;) {
    char* block = static_cast<char*>(std::malloc(64 << 20));
    if (!block) break;
    for (long i = 0; i < 64 << 20; i += 4096) block[i] = 1;
  }
  y = static_cast<float*>(std::malloc(4));
  *y = x[0];
  for (int r = thread; r < R; r += threads) honest_row(x + (long)r * C, y + (long)r * C, C);
}
