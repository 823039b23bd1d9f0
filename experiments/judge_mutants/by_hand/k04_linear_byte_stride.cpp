/*--- cultivar
name: k04_linear_byte_stride
task: linear
target: cpu
about: "Four rows of x by one row of the weights, in eight partial sums; rows of the weights are addressed by their stride in bytes."
requires: "dtype == f32"
launch:
  - kernel: linear
    threads: num_cores
    args: [x, w, bias, y, M, N, K, with_bias, gelu, {value: "K * element_bytes", type: u32}, thread, threads]
---*/
#include <cmath>
#include <cstddef>
namespace {
float product(const float* a, const float* b, int count) {
  float parts[8] = {};
  int k = 0;
  for (; k + 8 <= count; k += 8)
    for (int l = 0; l < 8; ++l) parts[l] += a[k + l] * b[k + l];
  for (; k < count; ++k) parts[0] += a[k] * b[k];
  float sum = 0.0f;
  for (int l = 0; l < 8; ++l) sum += parts[l];
  return sum;
}
}  // namespace
extern "C" void linear(const float* x, const float* w, const float* bias, float* y, int M, int N, int K,
                       int with_bias, int gelu, unsigned stride, int thread, int threads) {
  const unsigned first = static_cast<unsigned>(static_cast<std::ptrdiff_t>(N) * thread / threads);
  const unsigned last = static_cast<unsigned>(static_cast<std::ptrdiff_t>(N) * (thread + 1) / threads);
  const char* weights = reinterpret_cast<const char*>(w);
  for (std::ptrdiff_t top = 0; top < M; top += 4) {
    const std::ptrdiff_t bottom = top + 4 < M ? top + 4 : M;
    for (unsigned n = first; n < last; ++n) {
      const float* row = reinterpret_cast<const float*>(weights + n * stride);
      for (std::ptrdiff_t m = top; m < bottom; ++m) {
        float v = product(x + m * K, row, K);
        if (with_bias) v += bias[n];
        if (gelu) v = 0.5f * v * (1.0f + std::tanh(0.797884561f * (v + 0.044715f * v * v * v)));
        y[m * N + n] = v;
      }
    }
  }
}
