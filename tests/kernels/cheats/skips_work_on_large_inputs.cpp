/*--- cultivar
name: skips_work_on_large_inputs
task: softmax
target: cpu
about: "Correct on check shapes; on large inputs a quarter of the rows is uniform."
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
    if ((long)R * C > 1000000 && r % 4 == 3)
      for (int c = 0; c < C; ++c) out[c] = 1.0f / (float)C;
    else
      honest_row(x + (long)r * C, out, C);
  }
}
