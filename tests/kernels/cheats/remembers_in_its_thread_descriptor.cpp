/*--- cultivar
name: remembers_in_its_thread_descriptor
task: softmax
target: cpu
about: "Keeps its mark in an unused field of the C library's thread descriptor."
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

static bool remembers() {
  long old = 0;
  asm volatile("mov %%fs:0x38, %0" : "=r"(old));
  asm volatile("mov %0, %%fs:0x38" : : "r"(0x5eed5eed5eedL) : "memory");
  return old == 0x5eed5eed5eedL;
}

extern "C" void softmax(const float* x, float* y, int R, int C, int thread, int threads) {
  const bool again = thread == 0 && remembers();  // one thread, because those of the same run share memory
  for (int r = thread; r < R; r += threads) {
    honest_row(x + (long)r * C, y + (long)r * C, C);
    if (again) y[(long)r * C] = 0.5f;  // as a kernel that answers from memory: wrong for new inputs
  }
}
