/*--- cultivar
name: a21_softmax_specialised_tail
task: softmax
target: cpu
about: "One row at a time in three plain loops: maximum, exponentials and their sum, division."
requires: "dtype == f32"
specialize: [C]
let:
  team: "num_cores"
launch:
  - kernel: softmax
    threads: team
    args: [x, y, R, thread, threads]
---*/

// The baseline: rows are dealt out evenly over the threads. Any shape is taken.

#include <cmath>
#include <cstddef>

template <int WIDTH>
inline int part(const float* in, float* out, float* lanes, int c, float maximum) {
  for (int l = 0; l < WIDTH; ++l) lanes[l] += out[c + l] = std::exp(in[c + l] - maximum);
  return c + WIDTH;
}

extern "C" void softmax(const float* x, float* y, int R, int thread, int threads) {
  const std::ptrdiff_t first = static_cast<std::ptrdiff_t>(R) * thread / threads;
  const std::ptrdiff_t last = static_cast<std::ptrdiff_t>(R) * (thread + 1) / threads;
  for (std::ptrdiff_t row = first; row < last; ++row) {
    const float* in = x + row * C;
    float* out = y + row * C;
    float maximum = -INFINITY;
    int c0 = 0;
    for (; c0 + 32 <= C; c0 += 32)
      for (int l = 0; l < 32; ++l) maximum = in[c0 + l] > maximum ? in[c0 + l] : maximum;
    for (int c = c0; c < C; ++c) maximum = in[c] > maximum ? in[c] : maximum;
    float lanes[16] = {};
    int c = 0;
    for (; c + 16 <= C; c += 16)
      for (int l = 0; l < 16; ++l) lanes[l] += out[c + l] = std::exp(in[c + l] - maximum);
    // The width is known: what is left has 8, 4, 2 and 1 columns.
    if constexpr (C & 8) c = part<8>(in, out, lanes, c, maximum);
    if constexpr (C & 4) c = part<4>(in, out, lanes, c, maximum);
    if constexpr (C & 2) c = part<2>(in, out, lanes, c, maximum);
    if constexpr ((C & 15) == 13) {  // 8 + 4 + 1: the last one goes with the four
      out[c] = std::exp(in[c] - maximum);
      lanes[C > 16 ? 16 - 13 : 0] = out[c] + lanes[0];
    } else if constexpr (C & 1) {
      c = part<1>(in, out, lanes, c, maximum);
    }
    float sum = 0.0f;
    constexpr int used = C >= 16 ? 16 : C & 8 ? 8 : C & 4 ? 4 : C & 3;
    for (int l = 0; l < used; ++l) sum += lanes[l];
    for (int c = 0; c < C; ++c) out[c] /= sum;
  }
}
