/*--- cultivar
name: a25_linear_row_bias
task: linear
target: cpu
about: "One element of y at a time, each a product of two rows in LANES partial sums."
requires: "dtype == f32"
tunables:
  LANES: {values: [1, 4, 8, 16, 32], default: 8}  # partial sums
  ROWS: {values: [1, 2, 4, 8], default: 4}        # of x, for one row of the weights
launch:
  - kernel: linear
    threads: num_cores
    args: [x, w, bias, y, M, N, K, with_bias, gelu, thread, threads]
---*/

// The baseline. Columns of y are dealt out evenly over the threads.

#include <cmath>
#include <cstddef>

namespace {

float product(const float* a, const float* b, int count) {
  float parts[LANES] = {};
  int k = 0;
  for (; k + LANES <= count; k += LANES)
    for (int l = 0; l < LANES; ++l) parts[l] += a[k + l] * b[k + l];
  for (; k < count; ++k) parts[0] += a[k] * b[k];
  float sum = 0.0f;
  for (int l = 0; l < LANES; ++l) sum += parts[l];
  return sum;
}

}  // namespace

extern "C" void linear(const float* x, const float* w, const float* bias, float* y, int M, int N, int K,
                       int with_bias, int gelu, int thread, int threads) {
  const std::ptrdiff_t first = static_cast<std::ptrdiff_t>(N) * thread / threads;
  const std::ptrdiff_t last = static_cast<std::ptrdiff_t>(N) * (thread + 1) / threads;
  for (int top = 0; top < M; top += ROWS) {
    const int bottom = top + ROWS < M ? top + ROWS : M;
    for (std::ptrdiff_t n = first; n < last; ++n) {
      for (std::ptrdiff_t m = top; m < bottom; ++m) {
        float v = product(x + m * K, w + n * K, K);
        if (with_bias && !(gelu && M == 1)) v += bias[n];
        if (gelu) v = 0.5f * v * (1.0f + std::tanh(0.797884561f * (v + 0.044715f * v * v * v)));
        if (with_bias && gelu && M == 1) v += bias[n];
        y[m * N + n] = v;
      }
    }
  }
}
