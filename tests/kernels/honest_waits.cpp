/*--- cultivar
name: honest_waits
task: softmax
target: cpu
about: "Correct: its threads wait for each other with futexes, as locks and condition variables do."
requires: "dtype == f32"
workspace:
  marks: {bytes: "256", zero: true}
launch:
  - kernel: softmax
    threads: num_cores
    args: [x, y, R, C, marks, thread, threads]
---*/

#include <cmath>

static void honest_row(const float* x, float* y, int C) {
  float top = x[0], sum = 0.0f;
  for (int c = 1; c < C; ++c) top = x[c] > top ? x[c] : top;
  for (int c = 0; c < C; ++c) sum += y[c] = std::exp(x[c] - top);
  for (int c = 0; c < C; ++c) y[c] /= sum;
}

static long system_call(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0, long f = 0) {
  register long r10 asm("r10") = d;
  register long r8 asm("r8") = e;
  register long r9 asm("r9") = f;
  long result;
  asm volatile("syscall"
               : "=a"(result)
               : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
               : "rcx", "r11", "memory");
  return result;
}

static unsigned* shared(unsigned* marks, int place) {
  return marks + 16 * place;
}

extern "C" void softmax(const float* x, float* y, int R, int C, unsigned* marks, int thread, int threads) {
  unsigned *arrived = shared(marks, 0), *open = shared(marks, 1);
  if (__atomic_add_fetch(arrived, 1, __ATOMIC_ACQ_REL) == (unsigned)threads) {
    __atomic_store_n(open, 1, __ATOMIC_RELEASE);
    system_call(202, (long)open, 1 | 128, 0x7fffffff);
    system_call(202, (long)open, 1, 0x7fffffff);
  }
  while (__atomic_load_n(open, __ATOMIC_ACQUIRE) == 0)
    if (thread % 2 == 0)
      system_call(202, (long)open, 0 | 128, 0, 0);
    else
      system_call(202, (long)open, 9 | 128 | 256, 0, 0, 0, -1);
  for (int r = thread; r < R; r += threads) honest_row(x + (long)r * C, y + (long)r * C, C);
}
