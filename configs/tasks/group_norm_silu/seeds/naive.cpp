/*--- cultivar
name: group_norm_silu_naive
task: group_norm_silu
target: cpu
about: "One group at a time: mean, squares of the deviations, then the result, with std::exp."
requires: "dtype == f32"
let:
  team: "num_cores"
launch:
  - kernel: group_norm_silu
    threads: team
    args: [x, weight, bias, y, N, C, G, D, S, silu, eps, thread, threads]
---*/

// The baseline: groups of all images are dealt out evenly over the threads. Any shape is taken.

#include <cmath>
#include <cstddef>

namespace {

// In parts of eight sums each, so that the rounding errors of a long sum do not pile up.
template <class Term>
float sum_of(std::ptrdiff_t count, const Term& term) {
  float sum = 0.0f;
  for (std::ptrdiff_t from = 0; from < count; from += 1024) {
    const std::ptrdiff_t end = count - from < 1024 ? count : from + 1024;
    float sums[8] = {};
    std::ptrdiff_t i = from;
    for (; i + 8 <= end; i += 8)
      for (int l = 0; l < 8; ++l) sums[l] += term(i + l);
    for (; i < end; ++i) sums[0] += term(i);
    sum += ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
  }
  return sum;
}

}  // namespace

extern "C" void group_norm_silu(const float* x, const float* weight, const float* bias, float* y, int N,
                                int C, int G, int D, int S, int silu, float eps, int thread, int threads) {
  const std::ptrdiff_t count = static_cast<std::ptrdiff_t>(D) * S,
                       groups = static_cast<std::ptrdiff_t>(N) * G;
  const std::ptrdiff_t last = groups * (thread + 1) / threads;
  for (std::ptrdiff_t group = groups * thread / threads; group < last; ++group) {
    const float* const in = x + group * count;
    float* const out = y + group * count;
    const float mean = sum_of(count, [&](std::ptrdiff_t i) { return in[i]; }) / static_cast<float>(count);
    const float squares = sum_of(count, [&](std::ptrdiff_t i) { return (in[i] - mean) * (in[i] - mean); });
    const float factor = 1.0f / std::sqrt(squares / static_cast<float>(count) + eps);
    for (std::ptrdiff_t i = 0; i < count; ++i) {
      const std::ptrdiff_t c = (group * D + i / S) % C;
      const float v = (in[i] - mean) * factor * weight[c] + bias[c];
      out[i] = silu ? v / (1.0f + std::exp(-v)) : v;
    }
  }
}
