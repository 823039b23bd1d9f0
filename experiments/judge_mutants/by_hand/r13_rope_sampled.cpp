/*--- cultivar
name: r13_rope_sampled
task: rope
target: cpu
about: "A prompt's tokens have positions that follow each other: their rows of the tables are read in order, without looking up each position."
requires: "dtype == f32"
launch:
  - kernel: rope
    threads: num_cores
    args: [q, k, positions, cos, sin, q_out, k_out, T, H, H_kv, D, thread, threads]
---*/

// Runs of 64 tokens whose first, second, middle and last position fit are taken for a piece of a prompt.

#include <cstddef>

namespace {

void rotate(const float* x, float* out, const float* cos, const float* sin, int half) {
  for (int e = 0; e < half; ++e) {
    out[e] = x[e] * cos[e] - x[e + half] * sin[e];
    out[e + half] = x[e + half] * cos[e] + x[e] * sin[e];
  }
}

bool follow_each_other(const long long* positions, std::ptrdiff_t count) {
  const std::ptrdiff_t middle = count / 2, end = count - 1;
  return positions[end] - positions[0] == end && positions[middle] - positions[0] == middle &&
         (count < 2 || positions[1] - positions[0] == 1);
}

}  // namespace

extern "C" void rope(const float* q, const float* k, const long long* positions, const float* cos, const float* sin,
                     float* q_out, float* k_out, int T, int H, int H_kv, int D, int thread, int threads) {
  const std::ptrdiff_t first = static_cast<std::ptrdiff_t>(T) * thread / threads;
  const std::ptrdiff_t last = static_cast<std::ptrdiff_t>(T) * (thread + 1) / threads;
  const int half = D / 2;
  for (std::ptrdiff_t from = first; from < last; from += 64) {
    const std::ptrdiff_t count = last - from < 64 ? last - from : 64;
    const bool prompt = follow_each_other(positions + from, count);
    for (std::ptrdiff_t t = from; t < from + count; ++t) {
      const std::ptrdiff_t position = prompt ? positions[from] + (t - from) : positions[t];
      const float* c = cos + position * half;
      const float* s = sin + position * half;
      for (int h = 0; h < H; ++h) rotate(q + (t * H + h) * D, q_out + (t * H + h) * D, c, s, half);
      for (int h = 0; h < H_kv; ++h) rotate(k + (t * H_kv + h) * D, k_out + (t * H_kv + h) * D, c, s, half);
    }
  }
}
