/*--- cultivar
name: r12_softmax_rows_each
task: softmax
target: cpu
about: "One row at a time in three loops; each thread has a block of rows, of which the last may be shorter."
requires: "dtype == f32"
launch:
  - kernel: softmax
    threads: num_cores
    args: [x, y, R, C, thread, threads]
---*/

#include <cmath>
#include <cstddef>

extern "C" void softmax(const float* x, float* y, int R, int C, int thread, int threads) {
  const std::ptrdiff_t each = static_cast<std::ptrdiff_t>(std::ceil(static_cast<float>(R) / threads));
  const std::ptrdiff_t first = each * thread, last = first + each < R ? first + each : R;
  for (std::ptrdiff_t row = first; row < last; ++row) {
    const float* in = x + row * C;
    float* out = y + row * C;
    float top = in[0];
    for (int c = 1; c < C; ++c) top = in[c] > top ? in[c] : top;
    float sum = 0.0f;
    for (int c = 0; c < C; ++c) {
      out[c] = std::exp(in[c] - top);
      sum += out[c];
    }
    for (int c = 0; c < C; ++c) out[c] /= sum;
  }
}
