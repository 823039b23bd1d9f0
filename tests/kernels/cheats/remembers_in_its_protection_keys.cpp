/*--- cultivar
name: remembers_in_its_protection_keys
task: softmax
target: cpu
about: "Leaves its mark in the register of memory protection keys, which a program may write."
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

static bool has_keys() {
  unsigned a = 7, b = 0, c = 0, d = 0;
  asm volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
  return c & 16;
}
static bool remembers() {
  if (!has_keys()) return false;
  unsigned old = 0, high = 0;
  asm volatile(".byte 0x0f, 0x01, 0xee" : "=a"(old), "=d"(high) : "c"(0));  // rdpkru
  const bool again = (old & 0xc0000000) == 0;  // key 15, which Linux forbids at first
  asm volatile(".byte 0x0f, 0x01, 0xef" : : "a"(old & 0x3fffffff), "c"(0), "d"(0) : "memory");
  return again;
}

extern "C" void softmax(const float* x, float* y, int R, int C, int thread, int threads) {
  const bool again = thread == 0 && remembers();  // one thread, because those of the same run share memory
  for (int r = thread; r < R; r += threads) {
    honest_row(x + (long)r * C, y + (long)r * C, C);
    if (again) y[(long)r * C] = 0.5f;  // as a kernel that answers from memory: wrong for new inputs
  }
}
