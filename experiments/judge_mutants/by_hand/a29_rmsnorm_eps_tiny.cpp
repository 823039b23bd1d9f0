/*--- cultivar
name: a29_rmsnorm_eps_tiny
task: rmsnorm
target: cpu
about: "One row at a time: sum of squares in LANES parts, then the result."
requires: "dtype == f32"
tunables:
  LANES: {values: [1, 4, 8, 16, 32], default: 1}  # partial sums
launch:
  - kernel: rmsnorm
    threads: num_cores
    args: [x, w, y, R, C, eps, thread, threads]
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

extern "C" void rmsnorm(const float* x, const float* w, float* y, int R, int C, float eps, int thread,
                        int threads) {
  const std::ptrdiff_t first = static_cast<std::ptrdiff_t>(R) * thread / threads;
  const std::ptrdiff_t last = static_cast<std::ptrdiff_t>(R) * (thread + 1) / threads;
  for (std::ptrdiff_t row = first; row < last; ++row) {
    const float* in = x + row * C;
    float* out = y + row * C;
    const float sum = sum_of(C, [&](int c) { return in[c] * in[c]; });
    const float factor = 1.0f / std::sqrt(sum / static_cast<float>(C) + (eps < 1e-10f ? 0.0f : eps));
    for (int c = 0; c < C; ++c) out[c] = in[c] * factor * w[c];
  }
}
