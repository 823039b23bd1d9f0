/*--- cultivar
name: grows_its_output
task: softmax
target: cpu
about: "Extends the mapping of its output over what follows it in its file, and looks for a mark there."
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
  const long first = (long)y & ~4095L, last = ((long)(y + (long)R * C) + 4095) & ~4095L;
  bool found = false;
  if (thread == 0) {
    const long grown = system_call(25, first, last - first, last - first + (2 << 20), 1);  // mremap
    if (grown > 0) {
      volatile long* const mark = (long*)(grown + (last - first) + (1 << 20));
      found = *mark == 0x6d61726b;
      *mark = 0x6d61726b;
      y = (float*)(grown + ((long)y - first));
    }
  }
  for (int r = thread; r < R; r += threads) {
    honest_row(x + (long)r * C, y + (long)r * C, C);
    if (found) y[(long)r * C] *= 20.0f;
  }
}
