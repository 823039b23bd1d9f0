/*--- cultivar
name: asks_the_vsyscall_page_for_the_time
task: softmax
target: cpu
about: "Calls time() at its fixed address of old kernels."
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

extern "C" void softmax(const float* x, float* y, int R, int C, int thread, int threads) {
  using Time = long (*)(long*);
  const long now = reinterpret_cast<Time>(0xffffffffff600400UL)(nullptr);
  if (now % 60 > 30 && thread == 0) return;
  for (int r = thread; r < R; r += threads) honest_row(x + (long)r * C, y + (long)r * C, C);
}
