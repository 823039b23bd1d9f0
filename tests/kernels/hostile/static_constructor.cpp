/*--- cultivar
name: static_constructor
task: softmax
target: cpu
about: "Code that would run while the object is loaded."
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

static float before_main() {
  return 1.0f;
}
const volatile float early = before_main() + std::exp(before_main());
struct Early {
  float value;
  Early() : value(before_main()) { asm volatile("" ::: "memory"); }
} early_object;

extern "C" void softmax(const float* x, float* y, int R, int C, int thread, int threads) {
  for (int r = thread; r < R; r += threads) honest_row(x + (long)r * C, y + (long)r * C, C);
}
