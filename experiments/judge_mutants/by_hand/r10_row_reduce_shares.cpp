/*--- cultivar
name: r10_row_reduce_shares
task: row_reduce
target: cpu
about: "Each row is cut into as many equal parts as there are threads; a second kernel adds the parts."
requires: "dtype == f32"
let:
  team: "num_cores"
workspace:
  parts: {bytes: "4 * R * team"}
launch:
  - kernel: sum_parts
    threads: team
    args: [x, parts, R, C, thread, threads]
  - kernel: add_parts
    threads: 1
    args: [parts, y, R, {value: team, type: i32}]
---*/

#include <cstddef>

extern "C" void sum_parts(const float* x, float* parts, int R, int C, int thread, int threads) {
  // The columns of this thread.
  const float share = static_cast<float>(C) / static_cast<float>(threads);
  const int first = static_cast<int>(share * static_cast<float>(thread));
  int last = static_cast<int>(share * static_cast<float>(thread + 1));
  if (last > C) last = C;
  for (std::ptrdiff_t row = 0; row < R; ++row) {
    const float* in = x + row * C;
    float total = 0.0f;
    for (int from = first; from < last; from += 4096) {
      const int end = last - from < 4096 ? last : from + 4096;
      float sums[16] = {};
      int c = from;
      for (; c + 16 <= end; c += 16)
        for (int l = 0; l < 16; ++l) sums[l] += in[c + l];
      for (; c < end; ++c) sums[0] += in[c];
      float sum = 0.0f;
      for (int l = 0; l < 16; ++l) sum += sums[l];
      total += sum;
    }
    parts[row * threads + thread] = total;
  }
}

extern "C" void add_parts(const float* parts, float* y, int R, int team) {
  for (std::ptrdiff_t row = 0; row < R; ++row) {
    float sum = 0.0f;
    for (int t = 0; t < team; ++t) sum += parts[row * team + t];
    y[row] = sum;
  }
}
