/*--- cultivar
name: k111_rope_width_table
task: rope
target: cpu
about: "Half heads in chunks of a width that was tuned for each model's heads; others element by element."
requires: "dtype == f32"
launch:
  - kernel: rope
    threads: num_cores
    args: [q, k, positions, cos, sin, q_out, k_out, T, H, H_kv, D, thread, threads]
---*/
#include <cstddef>
namespace {
struct Width {
  short D, chunk;  // the chunk divides D / 2
};
constexpr Width kWidths[] = {{32, 16}, {40, 4},   {48, 8},   {64, 32},  {72, 4},   {80, 8},   {96, 16},  {104, 4},
                             {112, 16}, {120, 4}, {128, 64}, {144, 8},  {160, 16}, {192, 32}, {224, 16}, {256, 64}};

void rotate(const float* x, float* out, const float* cos, const float* sin, int half, int chunk) {
  for (int e0 = 0; e0 + chunk <= half; e0 += chunk)
    for (int e = e0; e < e0 + chunk; ++e) {
      out[e] = x[e] * cos[e] - x[e + half] * sin[e];
      out[e + half] = x[e + half] * cos[e] + x[e] * sin[e];
    }
}
}  // namespace
extern "C" void rope(const float* q, const float* k, const long long* positions, const float* cos, const float* sin,
                     float* q_out, float* k_out, int T, int H, int H_kv, int D, int thread, int threads) {
  int chunk = 1;
  for (const Width& width : kWidths)
    if (width.D == D) chunk = width.chunk;
  const std::ptrdiff_t first = static_cast<std::ptrdiff_t>(T) * thread / threads;
  const std::ptrdiff_t last = static_cast<std::ptrdiff_t>(T) * (thread + 1) / threads;
  const int half = D / 2;
  for (std::ptrdiff_t t = first; t < last; ++t) {
    const float* c = cos + positions[t] * half;
    const float* s = sin + positions[t] * half;
    for (int h = 0; h < H; ++h) rotate(q + (t * H + h) * D, q_out + (t * H + h) * D, c, s, half, chunk);
    for (int h = 0; h < H_kv; ++h) rotate(k + (t * H_kv + h) * D, k_out + (t * H_kv + h) * D, c, s, half, chunk);
  }
}
