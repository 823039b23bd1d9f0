/*--- cultivar
name: a14_rope_u16_stride
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
  const unsigned short q_token = H * D, k_token = H_kv * D;  // elements of a token
  for (std::ptrdiff_t t = first; t < last; ++t) {
    const float* c = cos + positions[t] * half;
    const float* s = sin + positions[t] * half;
    for (int h = 0; h < H; ++h) rotate(q + t * q_token + h * D, q_out + t * q_token + h * D, c, s, half);
    for (int h = 0; h < H_kv; ++h) rotate(k + t * k_token + h * D, k_out + t * k_token + h * D, c, s, half);
  }
}
