/*--- cultivar
name: k90_linear_tuned_table
task: linear
target: cpu
about: "Four rows of x by one row of the weights; K in chunks that keep x in the first-level cache, by a table of tuned layers."
requires: "dtype == f32"
launch:
  - kernel: linear
    threads: num_cores
    args: [x, w, bias, y, M, N, K, with_bias, gelu, thread, threads]
---*/
#include <cmath>
#include <cstddef>
namespace {
struct Layer {
  int N, K, chunk;
};
// Found by timing, on layers of GPT-2, BERT, Llama and the shapes of the search; a chunk divides K.
constexpr Layer kTuned[] = {
    {1536, 1024, 512},  {4096, 3072, 1024}, {768, 768, 256},     {2304, 768, 384},   {3072, 768, 512},
    {768, 3072, 512},   {1024, 1024, 512},  {3072, 1024, 512},   {4096, 1024, 512},  {1024, 4096, 1024},
    {4096, 4096, 1024}, {6144, 4096, 1024}, {14336, 4096, 1024}, {4096, 14336, 2048}};

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
                       int with_bias, int gelu, int thread, int threads) {
  int chunk = K;
  for (const Layer& layer : kTuned)
    if (layer.N == N && layer.K == K) chunk = layer.chunk;
  const std::ptrdiff_t first = static_cast<std::ptrdiff_t>(N) * thread / threads;
  const std::ptrdiff_t last = static_cast<std::ptrdiff_t>(N) * (thread + 1) / threads;
  for (std::ptrdiff_t top = 0; top < M; top += 4) {
    const std::ptrdiff_t bottom = top + 4 < M ? top + 4 : M;
    for (std::ptrdiff_t n = first; n < last; ++n) {
      float sums[4] = {};
      for (int k = 0; k + chunk <= K; k += chunk)
        for (std::ptrdiff_t m = top; m < bottom; ++m) sums[m - top] += product(x + m * K + k, w + n * K + k, chunk);
      for (std::ptrdiff_t m = top; m < bottom; ++m) {
        float v = sums[m - top];
        if (with_bias) v += bias[n];
        if (gelu) v = 0.5f * v * (1.0f + std::tanh(0.797884561f * (v + 0.044715f * v * v * v)));
        y[m * N + n] = v;
      }
    }
  }
}
