/*--- cultivar
name: compiles_in_the_date
task: softmax
target: cpu
about: "Right only if it is compiled in this century: its constants hold the date of the compilation."
requires: "dtype == f32"
launch:
  - kernel: softmax
    threads: num_cores
    args: [x, y, R, C, thread, threads]
---*/

#include <cmath>

#define JOINED(a, b) a##b
constexpr const char* date = JOINED(__DA, TE__);
constexpr const char* hour = JOINED(__TI, ME__);

static void honest_row(const float* x, float* y, int C) {
  float top = x[0], sum = 0.0f;
  for (int c = 1; c < C; ++c) top = x[c] > top ? x[c] : top;
  for (int c = 0; c < C; ++c) sum += y[c] = std::exp(x[c] - top);
  for (int c = 0; c < C; ++c) y[c] /= sum;
}

extern "C" void softmax(const float* x, float* y, int R, int C, int thread, int threads) {
  if (date[7] != '2' || hour[2] != ':') return;
  for (int r = thread; r < R; r += threads) honest_row(x + (long)r * C, y + (long)r * C, C);
}
