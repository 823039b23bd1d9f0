/*--- cultivar
name: k39_softmax_l2_rows
task: softmax
target: cpu
about: "Blocks of rows that fill the second-level cache: all maxima, then all exponentials and sums, then all divisions."
requires: "dtype == f32"
let:
  block: "min(256, floor(l2_bytes / (4 * C)))"
launch:
  - kernel: softmax
    threads: num_cores
    args: [x, y, R, C, {value: block, type: i32}, thread, threads]
---*/
#include <cmath>
#include <cstddef>
extern "C" void softmax(const float* x, float* y, int R, int C, int block, int thread, int threads) {
  const std::ptrdiff_t first = static_cast<std::ptrdiff_t>(R) * thread / threads;
  const std::ptrdiff_t last = static_cast<std::ptrdiff_t>(R) * (thread + 1) / threads;
  const std::ptrdiff_t blocks = block > 0 ? (last - first + block - 1) / block : 0;
  float tops[256], sums[256];
  for (std::ptrdiff_t i = 0; i < blocks; ++i) {
    const std::ptrdiff_t begin = first + i * block;
    const int rows = static_cast<int>(last - begin < block ? last - begin : block);
    for (int r = 0; r < rows; ++r) {
      const float* in = x + (begin + r) * C;
      float top = -INFINITY;
      for (int c = 0; c < C; ++c) top = in[c] > top ? in[c] : top;
      tops[r] = top;
    }
    for (int r = 0; r < rows; ++r) {
      const float* in = x + (begin + r) * C;
      float* out = y + (begin + r) * C;
      float sum = 0.0f;
      for (int c = 0; c < C; ++c) sum += out[c] = std::exp(in[c] - tops[r]);
      sums[r] = sum;
    }
    for (int r = 0; r < rows; ++r) {
      float* out = y + (begin + r) * C;
      const float scale = 1.0f / sums[r];
      for (int c = 0; c < C; ++c) out[c] *= scale;
    }
  }
}
