/*--- cultivar
name: remembers_on_its_stack
task: softmax
target: cpu
about: "Looks for its mark in a part of the stack that nothing overwrites between the runs."
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

[[gnu::noinline]] static bool remembers() {
  volatile long deep[100000];
  const bool again = deep[1000] == 0x5eed5eed5eedL;
  deep[1000] = 0x5eed5eed5eedL;
  return again;
}

extern "C" void softmax(const float* x, float* y, int R, int C, int thread, int threads) {
  const bool again = thread == 0 && remembers();  // one thread, because those of the same run share memory
  for (int r = thread; r < R; r += threads) {
    honest_row(x + (long)r * C, y + (long)r * C, C);
    if (again) y[(long)r * C] = 0.5f;  // as a kernel that answers from memory: wrong for new inputs
  }
}
