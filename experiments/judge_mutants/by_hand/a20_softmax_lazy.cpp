/*--- cultivar
name: a20_softmax_lazy
task: softmax
target: cpu
about: "One row at a time in three plain loops: maximum, exponentials and their sum, division."
requires: "dtype == f32"
let:
  team: "num_cores"
launch:
  - kernel: softmax
    threads: team
    args: [x, y, R, C, thread, threads]
---*/

// The baseline: rows are dealt out evenly over the threads. Any shape is taken.

#include <cmath>
#include <cstddef>

extern "C" void softmax(const float* x, float* y, int R, int C, int thread, int threads) {
  const std::ptrdiff_t first = static_cast<std::ptrdiff_t>(R) * thread / threads;
  const std::ptrdiff_t last = static_cast<std::ptrdiff_t>(R) * (thread + 1) / threads;
  for (std::ptrdiff_t row = first; row < last; ++row) {
    const float* in = x + row * C;
    float* out = y + row * C;
    // One pass, in tiles of 1024: the sum is rescaled only where the maximum rises by more than 8, since e^8 costs no precision.
    float base = -INFINITY, before = -INFINITY, sum = 0.0f;
    for (int from = 0; from < C; from += 1024) {
      const int to = from + 1024 < C ? from + 1024 : C;
      float top = before;
      for (int c = from; c < to; ++c) top = in[c] > top ? in[c] : top;
      if (top - before > 8.0f) {
        sum *= std::exp(base - top);
        base = top;
      }
      before = top;
      float part = 0.0f;
      for (int c = from; c < to; ++c) part += std::exp(in[c] - base);
      sum += part;
    }
    for (int c = 0; c < C; ++c) out[c] = std::exp(in[c] - base);
    for (int c = 0; c < C; ++c) out[c] /= sum;
  }
}
