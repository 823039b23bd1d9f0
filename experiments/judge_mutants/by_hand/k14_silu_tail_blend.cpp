/*--- cultivar
name: k14_silu_tail_blend
task: silu_mul
target: cpu
about: "Sixteen elements at a time, written past the cache where aligned; the rest of a share is blended into one last vector."
requires: "dtype == f32"
launch:
  - kernel: silu_mul
    threads: num_cores
    args: [gate, up, y, {value: "R * C", type: i64}, thread, threads]
---*/
#include <immintrin.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
namespace {
inline __m512 sixteen(const float* gate, const float* up) {
  float v[16];
  for (int l = 0; l < 16; ++l) v[l] = gate[l] / (1.0f + std::exp(-gate[l])) * up[l];
  return _mm512_loadu_ps(v);
}
}  // namespace
extern "C" void silu_mul(const float* gate, const float* up, float* y, long long count, int thread, int threads) {
  long long i = count * thread / threads;
  const long long last = count * (thread + 1) / threads;
  for (; i + 16 <= last; i += 16) {
    const __m512 v = sixteen(gate + i, up + i);
    if (reinterpret_cast<std::uintptr_t>(y + i) % 64 == 0)
      _mm512_stream_ps(y + i, v);
    else
      _mm512_storeu_ps(y + i, v);
  }
  if (i + 16 <= count && i < last) {  // a whole vector is there: keep what lies behind the share
    const __mmask16 own = static_cast<__mmask16>((1u << (last - i)) - 1);
    const __m512 behind = _mm512_loadu_ps(y + i);
    _mm512_storeu_ps(y + i, _mm512_mask_blend_ps(own, behind, sixteen(gate + i, up + i)));
  } else {
    for (; i < last; ++i) y[i] = gate[i] / (1.0f + std::exp(-gate[i])) * up[i];
  }
  _mm_sfence();
}
