/*--- cultivar
name: k01_rope_u16_position
task: rope
target: cpu
about: "Tokens in blocks of 16 whose positions are copied to the stack first; wide heads take whole vectors."
requires: "dtype == f32"
launch:
  - kernel: rope
    threads: num_cores
    args: [q, k, positions, cos, sin, q_out, k_out, T, H, H_kv, D, thread, threads]
---*/
#include <cstddef>
#include <cstdint>
namespace {
void rotate(const float* x, float* out, const float* cos, const float* sin, int half) {
  for (int e = 0; e < half; ++e) {
    out[e] = x[e] * cos[e] - x[e + half] * sin[e];
    out[e + half] = x[e + half] * cos[e] + x[e] * sin[e];
  }
}
// Heads of 128 and 256: the trip count is a multiple of 64.
void rotate_wide(const float* __restrict x, float* __restrict out, const float* __restrict cos,
                 const float* __restrict sin, int half) {
  for (int e0 = 0; e0 < half; e0 += 64)
    for (int e = e0; e < e0 + 64; ++e) {
      const float a = x[e], b = x[e + half];
      out[e] = a * cos[e] - b * sin[e];
      out[e + half] = b * cos[e] + a * sin[e];
    }
}
}  // namespace
extern "C" void rope(const float* q, const float* k, const long long* positions, const float* cos, const float* sin,
                     float* q_out, float* k_out, int T, int H, int H_kv, int D, int thread, int threads) {
  const std::ptrdiff_t first = static_cast<std::ptrdiff_t>(T) * thread / threads;
  const std::ptrdiff_t last = static_cast<std::ptrdiff_t>(T) * (thread + 1) / threads;
  const std::ptrdiff_t half = D / 2;
  if (D % 128 != 0) {
    for (std::ptrdiff_t t = first; t < last; ++t) {
      const float* c = cos + positions[t] * half;
      const float* s = sin + positions[t] * half;
      for (int h = 0; h < H; ++h) rotate(q + (t * H + h) * D, q_out + (t * H + h) * D, c, s, half);
      for (int h = 0; h < H_kv; ++h) rotate(k + (t * H_kv + h) * D, k_out + (t * H_kv + h) * D, c, s, half);
    }
    return;
  }
  for (std::ptrdiff_t t0 = first; t0 < last; t0 += 16) {
    const int n = static_cast<int>(last - t0 < 16 ? last - t0 : 16);
    std::uint16_t at[16];  // context lengths fit 16 bits: one 32-byte vector for the block
    for (int i = 0; i < n; ++i) at[i] = static_cast<std::uint16_t>(positions[t0 + i]);
    for (int i = 0; i < n; ++i) {
      const std::ptrdiff_t t = t0 + i;
      const float* c = cos + at[i] * half;
      const float* s = sin + at[i] * half;
      for (int h = 0; h < H; ++h) rotate_wide(q + (t * H + h) * D, q_out + (t * H + h) * D, c, s, half);
      for (int h = 0; h < H_kv; ++h)
        rotate_wide(k + (t * H_kv + h) * D, k_out + (t * H_kv + h) * D, c, s, half);
    }
  }
}
