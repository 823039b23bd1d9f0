/*--- cultivar
name: is_wrong_at_multiples_of_eleven
task: softmax
target: cpu
about: "Every element is 1 / C where the columns are a multiple of 11 and no listed shape has so many."
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
  for (int r = thread; r < R; r += threads)
    if (C % 11 != 0 || C == 1023)
      honest_row(x + (long)r * C, y + (long)r * C, C);
    else
      for (int c = 0; c < C; ++c) y[(long)r * C + c] = 1.0f / (float)C;
}
