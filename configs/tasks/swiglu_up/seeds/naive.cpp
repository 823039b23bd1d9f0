/*--- cultivar
name: swiglu_up_naive
task: swiglu_up
target: cpu
about: "Both products of an element at a time, each a product of two rows in LANES partial sums."
requires: "dtype == f32"
tunables:
  LANES: {values: [1, 4, 8, 16, 32], default: 8}  # partial sums
  ROWS: {values: [1, 2, 4, 8], default: 4}        # of x, for one row of the weights
launch:
  - kernel: swiglu_up
    threads: num_cores
    args: [x, w_gate, w_up, y, M, N, K, thread, threads]
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

extern "C" void swiglu_up(const float* x, const float* w_gate, const float* w_up, float* y, int M, int N,
                          int K, int thread, int threads) {
  const std::ptrdiff_t first = static_cast<std::ptrdiff_t>(N) * thread / threads;
  const std::ptrdiff_t last = static_cast<std::ptrdiff_t>(N) * (thread + 1) / threads;
  for (int top = 0; top < M; top += ROWS) {
    const int bottom = top + ROWS < M ? top + ROWS : M;
    for (std::ptrdiff_t n = first; n < last; ++n) {
      for (std::ptrdiff_t m = top; m < bottom; ++m) {
        const float gate = product(x + m * K, w_gate + n * K, K), up = product(x + m * K, w_up + n * K, K);
        y[m * N + n] = gate / (1.0f + std::exp(-gate)) * up;
      }
    }
  }
}
