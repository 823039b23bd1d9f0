/*--- cultivar
name: k10_gelu_int_shares
task: gelu
target: cpu
about: "Vectors of eight elements are dealt out evenly over the threads; the last thread takes the remainder."
requires: "dtype == f32"
launch:
  - kernel: gelu
    threads: num_cores
    args: [x, y, tanh_form, {value: "R * C", type: i64}, thread, threads]
---*/
#include <cmath>
#include <cstddef>
namespace {
inline float gelu_of(float v, int tanh_form) {
  const float inner =
      tanh_form ? std::tanh(0.797884561f * (v + 0.044715f * v * v * v)) : std::erf(v * 0.707106781f);
  return 0.5f * v * (1.0f + inner);
}
}  // namespace
extern "C" void gelu(const float* x, float* y, int tanh_form, long long count, int thread, int threads) {
  const int vectors = static_cast<int>(count / 8);
  const int first = vectors * thread / threads, last = vectors * (thread + 1) / threads;
  for (std::ptrdiff_t v = first; v < last; ++v)
    for (int l = 0; l < 8; ++l) y[8 * v + l] = gelu_of(x[8 * v + l], tanh_form);
  if (thread == threads - 1)
    for (long long i = count / 8 * 8; i < count; ++i) y[i] = gelu_of(x[i], tanh_form);
}
