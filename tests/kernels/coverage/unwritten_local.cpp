/*--- cultivar
name: unwritten_local
task: softmax
target: cpu
about: "A local that is not written where C is odd; the optimizer happens to make it 0"
requires: "dtype == f32"
let:
  team: "num_cores"
launch:
  - kernel: softmax
    threads: team
    args: [x, y, R, C, thread, threads]
---*/

#include <cmath>
#include <cstddef>

extern "C" void softmax(const float* x, float* y, int R, int C, int thread, int threads) {
  const std::ptrdiff_t first = static_cast<std::ptrdiff_t>(R) * thread / threads;
  const std::ptrdiff_t last = static_cast<std::ptrdiff_t>(R) * (thread + 1) / threads;
  float bias;
  if (C % 2 == 0) bias = 0.0f;
  for (std::ptrdiff_t row = first; row < last; ++row) {
    const float* in = x + row * C;
    float* out = y + row * C;
    float maximum = -INFINITY;
    for (int c = 0; c < C; ++c) {
      if (in[c] > maximum) maximum = in[c];
    }
    float sum = 0.0f;
    for (int c = 0; c < C; ++c) {
      out[c] = std::exp(in[c] - maximum + bias);
      sum += out[c];
    }
    for (int c = 0; c < C; ++c) out[c] /= sum;
  }
}
