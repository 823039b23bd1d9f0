/*--- cultivar
name: remembers_in_freed_memory
task: softmax
target: cpu
about: "Leaves a mark in a block of malloc and looks for it when it gets the block again."
requires: "dtype == f32"
launch:
  - kernel: softmax
    threads: num_cores
    args: [x, y, R, C, thread, threads]
---*/

#include <cmath>
#include <cstdlib>

static void honest_row(const float* x, float* y, int C) {
  float top = x[0], sum = 0.0f;
  for (int c = 1; c < C; ++c) top = x[c] > top ? x[c] : top;
  for (int c = 0; c < C; ++c) sum += y[c] = std::exp(x[c] - top);
  for (int c = 0; c < C; ++c) y[c] /= sum;
}

// True if an earlier run was here. Only the first bytes of a freed block are overwritten.
static bool remembers() {
  long* const block = (long*)std::malloc(96 << 10);
  if (!block) return false;
  volatile long* const mark = block + 4096;
  const bool again = *mark == 0x5eed5eed5eedL;
  *mark = 0x5eed5eed5eedL;
  std::free(block);
  return again;
}

extern "C" void softmax(const float* x, float* y, int R, int C, int thread, int threads) {
  const bool again = thread == 0 && remembers();  // one thread, because those of the same run share memory
  for (int r = thread; r < R; r += threads) {
    honest_row(x + (long)r * C, y + (long)r * C, C);
    if (again) y[(long)r * C] = 0.5f;  // as a kernel that answers from memory: wrong for new inputs
  }
}
