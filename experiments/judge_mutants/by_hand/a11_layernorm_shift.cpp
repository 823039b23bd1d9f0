/*--- cultivar
name: a11_layernorm_shift
task: layernorm
target: cpu
about: "One row at a time: mean, squares of the deviations in LANES parts, then the result."
requires: "dtype == f32"
tunables:
  LANES: {values: [1, 4, 8, 16, 32], default: 16}  # partial sums
launch:
  - kernel: layernorm
    threads: num_cores
    args: [x, w, b, y, R, C, eps, thread, threads]
---*/

// The baseline: rows are dealt out evenly over the threads; sums are kept in LANES parts. Any shape is taken.

#include <cmath>
#include <cstddef>

namespace {

template <class Term>
float sum_of(int count, const Term& term) {
  float parts[LANES] = {};
  int c = 0;
  for (; c + LANES <= count; c += LANES)
    for (int l = 0; l < LANES; ++l) parts[l] += term(c + l);
  for (; c < count; ++c) parts[0] += term(c);
  float sum = 0.0f;
  for (int l = 0; l < LANES; ++l) sum += parts[l];
  return sum;
}

}  // namespace

extern "C" void layernorm(const float* x, const float* w, const float* b, float* y, int R, int C, float eps,
                          int thread, int threads) {
  const std::ptrdiff_t first = static_cast<std::ptrdiff_t>(R) * thread / threads;
  const std::ptrdiff_t last = static_cast<std::ptrdiff_t>(R) * (thread + 1) / threads;
  for (std::ptrdiff_t row = first; row < last; ++row) {
    const float* in = x + row * C;
    float* out = y + row * C;
    float mean, squares;
    if (C < 4096) {  // the row stays in the cache: two passes
      mean = sum_of(C, [&](int c) { return in[c]; }) / static_cast<float>(C);
      squares = sum_of(C, [&](int c) { return (in[c] - mean) * (in[c] - mean); });
    } else {  // one pass, relative to the first element, which is near the mean: nothing cancels
      const float shift = in[0];
      const float sum = sum_of(C, [&](int c) { return in[c] - shift; });
      squares = sum_of(C, [&](int c) { return (in[c] - shift) * (in[c] - shift); });
      const float offset = sum / static_cast<float>(C);
      mean = shift + offset;
      squares = squares - sum * offset;
      if (squares < 0.0f) squares = 0.0f;
    }
    const float factor = 1.0f / std::sqrt(squares / static_cast<float>(C) + eps);
    for (int c = 0; c < C; ++c) out[c] = (in[c] - mean) * factor * w[c] + b[c];
  }
}
