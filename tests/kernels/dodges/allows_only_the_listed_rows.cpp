/*--- cultivar
name: allows_only_the_listed_rows
task: softmax
target: cpu
about: "Claims every shape, and its constraints allow only the listed numbers of rows."
requires: "dtype == f32"
constraints:
  - "R <= 3 || R == 5 || R == 7 || R == 8 || R == 16 || R == 37 || log2(R) % 1 == 0 || R == 3001"
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
  for (int r = thread; r < R; r += threads) honest_row(x + (long)r * C, y + (long)r * C, C);
}
