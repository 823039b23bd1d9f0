/*--- cultivar
name: r08_rope_held
task: rope
target: cpu
about: "The row of the tables is held in a local array, each pair of cos and sin together, while tokens have the same position."
requires: "dtype == f32 && D <= 512"
launch:
  - kernel: rope
    threads: num_cores
    args: [q, k, positions, cos, sin, q_out, k_out, T, H, H_kv, D, thread, threads]
---*/

// Sequences of a batch in generation mostly have equal lengths, so the tokens that follow each other have equal positions.

#include <cstddef>
#include <cstdint>

namespace {

struct Turn {
  float c, s;
};

void rotate(const float* x, float* out, const Turn* turns, int half) {
  for (int e = 0; e < half; ++e) {
    out[e] = x[e] * turns[e].c - x[e + half] * turns[e].s;
    out[e + half] = x[e + half] * turns[e].c + x[e] * turns[e].s;
  }
}

}  // namespace

extern "C" void rope(const float* q, const float* k, const long long* positions, const float* cos, const float* sin,
                     float* q_out, float* k_out, int T, int H, int H_kv, int D, int thread, int threads) {
  const std::ptrdiff_t first = static_cast<std::ptrdiff_t>(T) * thread / threads;
  const std::ptrdiff_t last = static_cast<std::ptrdiff_t>(T) * (thread + 1) / threads;
  const int half = D / 2;
  Turn turns[256];
  std::uint16_t held = 0;
  for (std::ptrdiff_t t = first; t < last; ++t) {
    const std::uint16_t position = static_cast<std::uint16_t>(positions[t]);
    if (t == first || position != held) {
      const float* c = cos + positions[t] * half;
      const float* s = sin + positions[t] * half;
      for (int e = 0; e < half; ++e) turns[e] = {c[e], s[e]};
      held = position;
    }
    for (int h = 0; h < H; ++h) rotate(q + (t * H + h) * D, q_out + (t * H + h) * D, turns, half);
    for (int h = 0; h < H_kv; ++h) rotate(k + (t * H_kv + h) * D, k_out + (t * H_kv + h) * D, turns, half);
  }
}
