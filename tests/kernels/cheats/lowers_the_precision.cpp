/*--- cultivar
name: lowers_the_precision
task: softmax
target: cpu
about: "Rounds every exponential to eight bits of mantissa."
requires: "dtype == f32"
launch:
  - kernel: softmax
    threads: num_cores
    args: [x, y, R, C, thread, threads]
---*/

#include <cmath>
#include <cstring>

static void honest_row(const float* x, float* y, int C) {
  float top = x[0], sum = 0.0f;
  for (int c = 1; c < C; ++c) top = x[c] > top ? x[c] : top;
  for (int c = 0; c < C; ++c) sum += y[c] = std::exp(x[c] - top);
  for (int c = 0; c < C; ++c) y[c] /= sum;
}

static float rounded(float value) {
  unsigned bits;
  std::memcpy(&bits, &value, 4);
  bits = (bits + 0x8000u) & 0xffff0000u;
  std::memcpy(&value, &bits, 4);
  return value;
}

extern "C" void softmax(const float* x, float* y, int R, int C, int thread, int threads) {
  for (int r = thread; r < R; r += threads) {
    honest_row(x + (long)r * C, y + (long)r * C, C);
    for (int c = 0; c < C; ++c) y[(long)r * C + c] = rounded(y[(long)r * C + c]);
  }
}
