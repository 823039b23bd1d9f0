/*--- cultivar
name: remembers_in_a_segment_base
task: softmax
target: cpu
about: "Leaves its mark in the base of a segment that no program uses."
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

static bool may_write_bases() {
  unsigned a = 7, b = 0, c = 0, d = 0;
  asm volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
  return b & 1;
}
static bool remembers() {
  if (!may_write_bases()) return false;
  long old = 0;
  asm volatile(".byte 0xf3, 0x48, 0x0f, 0xae, 0xc8" : "=a"(old));               // rdgsbase rax
  asm volatile(".byte 0xf3, 0x48, 0x0f, 0xae, 0xd8" : : "a"(0x5eed5eed5eedL));  // wrgsbase rax
  return old == 0x5eed5eed5eedL;
}

extern "C" void softmax(const float* x, float* y, int R, int C, int thread, int threads) {
  const bool again = thread == 0 && remembers();  // one thread, because those of the same run share memory
  for (int r = thread; r < R; r += threads) {
    honest_row(x + (long)r * C, y + (long)r * C, C);
    if (again) y[(long)r * C] = 0.5f;  // as a kernel that answers from memory: wrong for new inputs
  }
}
