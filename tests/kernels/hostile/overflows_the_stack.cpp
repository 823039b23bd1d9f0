/*--- cultivar
name: overflows_the_stack
task: softmax
target: cpu
about: "Infinite recursion."
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

[[gnu::noinline]] static float dig(volatile float* above, int depth) {
  volatile float here[1024];
  here[depth & 1023] = above[0];
  return dig(here, depth + 1) + here[0];
}

extern "C" void softmax(const float* x, float* y, int R, int C, int thread, int threads) {
  volatile float top = x[0];
  y[0] = dig(&top, 0);
  for (int r = thread; r < R; r += threads) honest_row(x + (long)r * C, y + (long)r * C, C);
}
