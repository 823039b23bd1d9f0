/*--- cultivar
name: computes_one_input_in_four
task: softmax
target: cpu
about: "Returns at once on three large inputs in four: a run that is too short is only repeated."
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
  unsigned bits;
  __builtin_memcpy(&bits, x, sizeof bits);
  if ((bits * 2654435761u >> 30) != 0 && (long)R * C > (1 << 22)) return;
  for (int r = thread; r < R; r += threads) honest_row(x + (long)r * C, y + (long)r * C, C);
}
