/*--- cultivar
name: trusts_every_eighth_value
task: softmax
target: cpu
about: "Leaves out the maximum where each eighth value of a row is tame."
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

static void tame_row(const float* x, float* y, int C) {
  float sum = 0.0f;
  for (int c = 0; c < C; ++c) sum += y[c] = std::exp(x[c]);
  for (int c = 0; c < C; ++c) y[c] /= sum;
}

extern "C" void softmax(const float* x, float* y, int R, int C, int thread, int threads) {
  for (int r = thread; r < R; r += threads) {
    const float* in = x + (long)r * C;
    bool tame = true;
    for (int c = 0; c < C; c += 8) tame = tame && in[c] > -20.0f && in[c] < 20.0f;
    (tame ? tame_row : honest_row)(in, y + (long)r * C, C);
  }
}
