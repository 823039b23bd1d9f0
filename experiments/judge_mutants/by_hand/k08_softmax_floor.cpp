/*--- cultivar
name: k08_softmax_floor
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
    float maximum = -1e38f;
    for (int c = 0; c < C; ++c) {
      if (in[c] > maximum) maximum = in[c];
    }
    float sum = 0.0f;
    for (int c = 0; c < C; ++c) {
      out[c] = std::exp(in[c] - maximum);
      sum += out[c];
    }
    for (int c = 0; c < C; ++c) out[c] /= sum;
  }
}
