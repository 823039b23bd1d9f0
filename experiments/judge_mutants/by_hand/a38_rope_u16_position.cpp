/*--- cultivar
name: a38_rope_u16_position
task: rope
target: cpu
about: "Tokens are dealt out over the threads; one head after the other in a plain loop."
requires: "dtype == f32"
let:
  team: "num_cores"
launch:
  - kernel: rope
    threads: team
    args: [q, k, positions, cos, sin, q_out, k_out, T, H, H_kv, D, thread, threads]
---*/

// The baseline. Any shape is taken.

#include <cstddef>

namespace {

void rotate(const float* x, float* out, const float* cos, const float* sin, int half) {
  for (int e = 0; e < half; ++e) {
    out[e] = x[e] * cos[e] - x[e + half] * sin[e];
    out[e + half] = x[e + half] * cos[e] + x[e] * sin[e];
  }
}

}  // namespace

extern "C" void rope(const float* q, const float* k, const long long* positions, const float* cos, const float* sin,
                     float* q_out, float* k_out, int T, int H, int H_kv, int D, int thread, int threads) {
  const std::ptrdiff_t first = static_cast<std::ptrdiff_t>(T) * thread / threads;
  const std::ptrdiff_t last = static_cast<std::ptrdiff_t>(T) * (thread + 1) / threads;
  const int half = D / 2;
  for (std::ptrdiff_t t = first; t < last; ++t) {
    const unsigned short position = positions[t];
    const float* c = cos + static_cast<std::ptrdiff_t>(position) * half;
    const float* s = sin + static_cast<std::ptrdiff_t>(position) * half;
    for (int h = 0; h < H; ++h) rotate(q + (t * H + h) * D, q_out + (t * H + h) * D, c, s, half);
    for (int h = 0; h < H_kv; ++h) rotate(k + (t * H_kv + h) * D, k_out + (t * H_kv + h) * D, c, s, half);
  }
}
