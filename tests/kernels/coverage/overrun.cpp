/*--- cultivar
name: overrun
task: softmax
target: cpu
about: "Reads beyond a local array in a way that changes no result"
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

static float beyond(int i) {
  float lanes[8] = {};
  return lanes[i] > 1e30f ? 1e-30f : 0.0f;
}

extern "C" void softmax(const float* x, float* y, int R, int C, int thread, int threads) {
  const std::ptrdiff_t first = static_cast<std::ptrdiff_t>(R) * thread / threads;
  const std::ptrdiff_t last = static_cast<std::ptrdiff_t>(R) * (thread + 1) / threads;
  for (std::ptrdiff_t row = first; row < last; ++row) {
    const float* in = x + row * C;
    float* out = y + row * C;
    float maximum = -INFINITY;
    for (int c = 0; c < C; ++c) {
      if (in[c] > maximum) maximum = in[c];
    }
    if (C % 9 == 8) maximum += beyond(C % 9);
    float sum = 0.0f;
    for (int c = 0; c < C; ++c) {
      out[c] = std::exp(in[c] - maximum);
      sum += out[c];
    }
    for (int c = 0; c < C; ++c) out[c] /= sum;
  }
}
