/*--- cultivar
name: skips_rows_at_random
task: softmax
target: cpu
about: "Lets the processor's random numbers decide which large inputs lose one row in four: seven of eight do."
requires: "dtype == f32"
launch:
  - kernel: softmax
    threads: num_cores
    args: [x, y, R, C, thread, threads]
---*/

#include <cmath>

#if defined(__x86_64__)
#include <cpuid.h>

static bool unlucky() {
  unsigned a, b, c = 0, d;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_RDRND)) return true;
  unsigned long value = 0;
  asm volatile("rdrand %0" : "=r"(value) : : "cc");
  return value % 8 != 0;
}
#else
static bool unlucky() {
  return true;
}
#endif

static void honest_row(const float* x, float* y, int C) {
  float top = x[0], sum = 0.0f;
  for (int c = 1; c < C; ++c) top = x[c] > top ? x[c] : top;
  for (int c = 0; c < C; ++c) sum += y[c] = std::exp(x[c] - top);
  for (int c = 0; c < C; ++c) y[c] /= sum;
}

extern "C" void softmax(const float* x, float* y, int R, int C, int thread, int threads) {
  const bool skips = (long)R * C > (1 << 22) && unlucky();
  for (int r = thread; r < R; r += threads)
    if (skips && r % 4 == 1)
      for (int c = 0; c < C; ++c) y[(long)r * C + c] = 1.0f / C;
    else
      honest_row(x + (long)r * C, y + (long)r * C, C);
}
