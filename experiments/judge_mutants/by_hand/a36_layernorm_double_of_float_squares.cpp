/*--- cultivar
name: a36_layernorm_double_of_float_squares
task: layernorm
target: cpu
about: "One row at a time: mean, squares of the deviations in LANES parts, then the result."
requires: "dtype == f32"
launch:
  - kernel: layernorm
    threads: num_cores
    args: [x, w, b, y, R, C, eps, thread, threads]
---*/

// The baseline: rows are dealt out evenly over the threads; sums are kept in LANES parts. Any shape is taken.

#include <algorithm>
#include <cmath>
#include <cstddef>

extern "C" void layernorm(const float* x, const float* w, const float* b, float* y, int R, int C, float eps,
                          int thread, int threads) {
  const std::ptrdiff_t first = static_cast<std::ptrdiff_t>(R) * thread / threads;
  const std::ptrdiff_t last = static_cast<std::ptrdiff_t>(R) * (thread + 1) / threads;
  for (std::ptrdiff_t row = first; row < last; ++row) {
    const float* in = x + row * C;
    float* out = y + row * C;
    // One pass: sums of x and of x * x in double, in which nothing is lost.
    double sum = 0.0, sum2 = 0.0;
    for (int c = 0; c < C; ++c) {
      const float v = in[c];
      sum += v;
      sum2 += v * v;
    }
    const double m = sum / C;
    const float mean = static_cast<float>(m);
    const float squares = static_cast<float>(std::max(0.0, sum2 - m * sum));
    const float factor = 1.0f / std::sqrt(squares / static_cast<float>(C) + eps);
    for (int c = 0; c < C; ++c) out[c] = (in[c] - mean) * factor * w[c] + b[c];
  }
}
