/*--- cultivar
name: remembers_in_a_second_view
task: softmax
target: cpu
about: "Maps its output once more at an address of its choice, and looks there for the last one."
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

extern "C" void softmax(const float* x, float* y, int R, int C, int thread, int threads) {
  const long place = 0x200000000000, page = (long)y & ~4095L;
  const volatile unsigned* const view = (const unsigned*)(place + ((long)y & 4095));
  bool again = false;
  if (thread == 0) {
    unsigned word = 0;
    again = system_call(202, place, 0, 0x7e57ab1e) != -14;  // readable: an earlier run was here
    system_call(25, page, 0, 4096, 3, place);               // mremap of size 0: a second view
    if (system_call(202, place, 0, 0x7e57ab1e) != -14) word = *view;
    if (word == 1) return;
  }
  for (int r = thread; r < R; r += threads) {
    honest_row(x + (long)r * C, y + (long)r * C, C);
    if (again) y[(long)r * C] = 0.5f;  // as a kernel that answers from memory: wrong for new inputs
  }
}
