/*--- cultivar
name: r05_layernorm_equal
task: layernorm
target: cpu
about: "One row at a time in 16 partial sums; rows of equal values, as of padding, are given the bias and no root is taken."
requires: "dtype == f32"
launch:
  - kernel: layernorm
    threads: num_cores
    args: [x, w, b, y, R, C, eps, thread, threads]
---*/

#include <cmath>
#include <cstddef>
#include <cstring>

namespace {

template <class Term>
float sum_of(int count, const Term& term) {
  float parts[16] = {};
  int c = 0;
  for (; c + 16 <= count; c += 16)
    for (int l = 0; l < 16; ++l) parts[l] += term(c + l);
  for (; c < count; ++c) parts[0] += term(c);
  float sum = 0.0f;
  for (int l = 0; l < 16; ++l) sum += parts[l];
  return sum;
}

}  // namespace

extern "C" void layernorm(const float* x, const float* w, const float* b, float* y, int R, int C, float eps, int thread,
                          int threads) {
  const std::ptrdiff_t first = static_cast<std::ptrdiff_t>(R) * thread / threads;
  const std::ptrdiff_t last = static_cast<std::ptrdiff_t>(R) * (thread + 1) / threads;
  for (std::ptrdiff_t row = first; row < last; ++row) {
    const float* in = x + row * C;
    float* out = y + row * C;
    const float mean = sum_of(C, [&](int c) { return in[c]; }) / static_cast<float>(C);
    const float variance = sum_of(C, [&](int c) { return (in[c] - mean) * (in[c] - mean); }) / static_cast<float>(C);
    // All equal but for the rounding of the mean: nothing is left of the row.
    if (variance < 1e-20f) {
      std::memcpy(out, b, sizeof(float) * C);
      continue;
    }
    const float factor = 1.0f / std::sqrt(variance + eps);
    for (int c = 0; c < C; ++c) out[c] = (in[c] - mean) * factor * w[c] + b[c];
  }
}
