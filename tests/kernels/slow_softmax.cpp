/*--- cultivar
name: slow_softmax
task: softmax
target: cpu
about: "Correct, and slow for its size: one thread, each exponential computed twice in double precision."
requires: "dtype == f32"
launch:
  - kernel: softmax
    threads: 1
    args: [x, y, R, C]
---*/

#include <cmath>

extern "C" void softmax(const float* x, float* y, int R, int C) {
  for (int r = 0; r < R; ++r, x += C, y += C) {
    double top = x[0], sum = 0.0;
    for (int c = 1; c < C; ++c) top = x[c] > top ? x[c] : top;
    for (int c = 0; c < C; ++c) sum += std::exp(x[c] - top);
    for (int c = 0; c < C; ++c) y[c] = float(std::exp(x[c] - top) / sum);
  }
}
