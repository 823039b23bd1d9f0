/*--- cultivar
name: leaves_out_the_last_tile
task: softmax
target: cpu
about: "Omits the last 64 columns of long rows from the sum."
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
  for (int r = thread; r < R; r += threads) {
    float* out = y + (long)r * C;
    const int part = C > 2048 ? C - 64 : C;
    honest_row(x + (long)r * C, out, part);
    for (int c = part; c < C; ++c) out[c] = 0.0f;
  }
}
