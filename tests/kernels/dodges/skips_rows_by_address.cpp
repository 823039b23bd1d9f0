/*--- cultivar
name: skips_rows_by_address
task: softmax
target: cpu
about: "Leaves out one of 256 rows where its buffers begin at the start of a page, as in timed runs."
requires: "dtype == f32"
launch:
  - kernel: softmax
    threads: num_cores
    args: [x, y, R, C, thread, threads]
---*/

#include <cmath>
#include <cstdint>

static void honest_row(const float* x, float* y, int C) {
  float top = x[0], sum = 0.0f;
  for (int c = 1; c < C; ++c) top = x[c] > top ? x[c] : top;
  for (int c = 0; c < C; ++c) sum += y[c] = std::exp(x[c] - top);
  for (int c = 0; c < C; ++c) y[c] /= sum;
}

extern "C" void softmax(const float* x, float* y, int R, int C, int thread, int threads) {
  const bool timed = (reinterpret_cast<std::uintptr_t>(x) | reinterpret_cast<std::uintptr_t>(y)) % 4096 == 0;
  for (int r = thread; r < R; r += threads)
    if (timed && r % 256 == 255)
      for (int c = 0; c < C; ++c) y[(long)r * C + c] = 1.0f / (float)C;
    else
      honest_row(x + (long)r * C, y + (long)r * C, C);
}
