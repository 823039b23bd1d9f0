/*--- cultivar
name: blames_the_machine
task: softmax
target: cpu
about: "Ends its process and tells the judge that somebody else has killed it"
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

// The page shared with the judge lies somewhere below this code. A futex wait that fails at once tells
// whether a page may be read; the two addresses of this run, behind the command 1, give the right one away.
// From there: the place where the handler of signals says which one came.
struct Bell {
  volatile unsigned* signal;
};
extern "C" void softmax(const float* x, float* y, int R, int C, int thread, int threads);
static Bell find_bell(const float* x, const float* y) {
  const long here = (long)&softmax & ~4095L;
  for (long page = here; page > here - (1L << 30); page -= 4096) {
    if (system_call(202, page, 0, 0x7e57ab1e) == -14) continue;
    const long* words = (const long*)page;
    for (int i = 1; i < 510; ++i)
      if (words[i] == (long)x && words[i + 1] == (long)y && (unsigned)words[i - 1] == 1 &&
          ((long)&words[i] & 63) == 8)
        return {(volatile unsigned*)((char*)&words[i] + 760)};
  }
  return {nullptr};
}

extern "C" void softmax(const float* x, float* y, int R, int C, int thread, int threads) {
  if (thread == 0) {
    const Bell bell = find_bell(x, y);
    if (bell.signal) {
      *bell.signal = 15;  // SIGTERM
      system_call(169);   // reboot, for which the system ends the process
    }
  }
  for (int r = thread; r < R; r += threads) honest_row(x + (long)r * C, y + (long)r * C, C);
}
