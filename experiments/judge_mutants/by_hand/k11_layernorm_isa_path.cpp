/*--- cultivar
name: k11_layernorm_isa_path
task: layernorm
target: cpu
about: "Sums with AVX-512 and masks where the processor has it, with eight lanes elsewhere."
requires: "dtype == f32"
launch:
  - kernel: layernorm
    threads: num_cores
    args: [x, w, b, y, R, C, eps, thread, threads]
---*/
#include <cmath>
#include <cstddef>
#if defined(__AVX512F__)
#include <immintrin.h>
#endif
namespace {
#if defined(__AVX512F__)
float sum_of(const float* in, int count) {
  __m512 sum = _mm512_setzero_ps();
  for (int c = 0; c < count; c += 16) {
    const __mmask16 some = count - c >= 16 ? 0xffff : static_cast<__mmask16>((1u << (count - c)) - 1);
    sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(some, in + c));
  }
  return _mm512_reduce_add_ps(sum);
}
float squares_of(const float* in, int count, float mean) {
  __m512 sum = _mm512_setzero_ps();
  for (int c = 0; c < count; c += 16) {
    const __mmask16 some = count - c >= 16 ? 0xffff : static_cast<__mmask16>((1u << (count - c)) - 1);
    const __m512 d = _mm512_maskz_sub_ps(some, _mm512_maskz_loadu_ps(some, in + c), _mm512_set1_ps(mean));
    sum = _mm512_fmadd_ps(d, d, sum);
  }
  return _mm512_reduce_add_ps(sum);
}
#else
float sum_of(const float* in, int count) {
  float parts[8] = {};
  int c = 0;
  for (; c + 8 <= count; c += 8)
    for (int l = 0; l < 8; ++l) parts[l] += in[c + l];
  for (; c < count; ++c) parts[0] += in[c];
  return ((parts[0] + parts[1]) + (parts[2] + parts[3])) + ((parts[4] + parts[5]) + (parts[6] + parts[7]));
}
float squares_of(const float* in, int count, float mean) {
  float parts[8] = {};
  for (int c = 0; c + 8 <= count; c += 8)
    for (int l = 0; l < 8; ++l) parts[l] += (in[c + l] - mean) * (in[c + l] - mean);
  return ((parts[0] + parts[1]) + (parts[2] + parts[3])) + ((parts[4] + parts[5]) + (parts[6] + parts[7]));
}
#endif
}  // namespace
extern "C" void layernorm(const float* x, const float* w, const float* b, float* y, int R, int C, float eps,
                          int thread, int threads) {
  const std::ptrdiff_t first = static_cast<std::ptrdiff_t>(R) * thread / threads;
  const std::ptrdiff_t last = static_cast<std::ptrdiff_t>(R) * (thread + 1) / threads;
  for (std::ptrdiff_t row = first; row < last; ++row) {
    const float* in = x + row * C;
    float* out = y + row * C;
    const float mean = sum_of(in, C) / static_cast<float>(C);
    const float factor = 1.0f / std::sqrt(squares_of(in, C, mean) / static_cast<float>(C) + eps);
    for (int c = 0; c < C; ++c) out[c] = (in[c] - mean) * factor * w[c] + b[c];
  }
}
