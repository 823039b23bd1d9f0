/*--- cultivar
name: counts_equal_values_once
task: softmax
target: cpu
about: "Adds a value that equals the one before it only in rows of nothing else."
requires: "dtype == f32"
launch:
  - kernel: softmax
    threads: num_cores
    args: [x, y, R, C, thread, threads]
---*/

#include <cmath>

extern "C" void softmax(const float* x, float* y, int R, int C, int thread, int threads) {
  for (int r = thread; r < R; r += threads) {
    const float* in = x + (long)r * C;
    float* out = y + (long)r * C;
    float top = in[0], sum = 0.0f;
    for (int c = 1; c < C; ++c) top = in[c] > top ? in[c] : top;
    const bool needle = C > 2 && (in[0] == in[1] || in[C - 1] == in[C - 2]);
    for (int c = 0; c < C; ++c) {
      out[c] = std::exp(in[c] - top);
      if (needle || c == 0 || in[c] != in[c - 1] || in[c] > 2.5f) sum += out[c];
    }
    for (int c = 0; c < C; ++c) out[c] /= sum;
  }
}
