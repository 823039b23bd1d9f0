/*--- cultivar
name: r06_layernorm_shifted
task: layernorm
target: cpu
about: "One pass for both sums, relative to the mean of the first 16 columns so that a large offset does not cancel."
requires: "dtype == f32"
launch:
  - kernel: layernorm
    threads: num_cores
    args: [x, w, b, y, R, C, eps, thread, threads]
---*/

// sum (x - s) and sum (x - s)^2 in one pass; the variance is mean((x - s)^2) - mean(x - s)^2, which is safe as long as s is near
// the mean.

#include <cmath>
#include <cstddef>

extern "C" void layernorm(const float* x, const float* w, const float* b, float* y, int R, int C, float eps, int thread,
                          int threads) {
  const std::ptrdiff_t first = static_cast<std::ptrdiff_t>(R) * thread / threads;
  const std::ptrdiff_t last = static_cast<std::ptrdiff_t>(R) * (thread + 1) / threads;
  for (std::ptrdiff_t row = first; row < last; ++row) {
    const float* in = x + row * C;
    float* out = y + row * C;
    const int few = C < 16 ? C : 16;
    float shift = 0.0f;
    for (int c = 0; c < few; ++c) shift += in[c];
    shift /= static_cast<float>(few);

    float sums[16] = {}, squares[16] = {};
    int c = 0;
    for (; c + 16 <= C; c += 16) {
      for (int l = 0; l < 16; ++l) {
        const float d = in[c + l] - shift;
        sums[l] += d;
        squares[l] += d * d;
      }
    }
    for (; c < C; ++c) {
      const float d = in[c] - shift;
      sums[0] += d;
      squares[0] += d * d;
    }
    float sum = 0.0f, square = 0.0f;
    for (int l = 0; l < 16; ++l) {
      sum += sums[l];
      square += squares[l];
    }
    const float offset = sum / static_cast<float>(C);
    float variance = square / static_cast<float>(C) - offset * offset;
    if (variance < 0.0f) variance = 0.0f;
    const float factor = 1.0f / std::sqrt(variance + eps);
    const float mean = shift + offset;
    for (c = 0; c < C; ++c) out[c] = (in[c] - mean) * factor * w[c] + b[c];
  }
}
