/*--- cultivar
name: remembers_in_its_rounding_mode
task: softmax
target: cpu
about: "Leaves its mark in the control words for arithmetic: flush to zero, and x87 rounding."
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
  unsigned mode = 0;
  unsigned short old_mode = 0, new_mode = 0x0f7f;
  asm volatile("stmxcsr %0" : "=m"(mode));
  asm volatile("fnstcw %0" : "=m"(old_mode));
  const bool again = (mode & 0x8000) != 0 || old_mode == new_mode;
  mode |= 0x8000;
  asm volatile("ldmxcsr %0" : : "m"(mode));
  asm volatile("fldcw %0" : : "m"(new_mode));
  return again;
}

extern "C" void softmax(const float* x, float* y, int R, int C, int thread, int threads) {
  const bool again = thread == 0 && remembers();  // one thread, because those of the same run share memory
  for (int r = thread; r < R; r += threads) {
    honest_row(x + (long)r * C, y + (long)r * C, C);
    if (again) y[(long)r * C] = 0.5f;  // as a kernel that answers from memory: wrong for new inputs
  }
}
