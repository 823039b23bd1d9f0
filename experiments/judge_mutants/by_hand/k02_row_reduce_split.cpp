/*--- cultivar
name: k02_row_reduce_split
task: row_reduce
target: cpu
about: "Every row is cut into PARTS pieces that are dealt out over the threads; a second kernel adds the pieces of each row."
requires: "dtype == f32"
tunables:
  PARTS: {values: [16, 32, 64, 128], default: 64}
workspace:
  parts: {bytes: "4 * R * PARTS"}
launch:
  - kernel: pieces
    threads: num_cores
    args: [x, parts, R, C, thread, threads]
  - kernel: add
    threads: 1
    args: [parts, y, R]
---*/
#include <cstddef>
extern "C" void pieces(const float* x, float* parts, int R, int C, int thread, int threads) {
  const std::ptrdiff_t all = static_cast<std::ptrdiff_t>(R) * PARTS;
  for (std::ptrdiff_t i = all * thread / threads; i < all * (thread + 1) / threads; ++i) {
    const std::ptrdiff_t row = i / PARTS;
    const unsigned part = static_cast<unsigned>(i % PARTS), width = static_cast<unsigned>(C);
    const unsigned first = width * part / PARTS, last = width * (part + 1) / PARTS;
    const float* in = x + row * C;
    float total = 0.0f;
    for (unsigned from = first; from < last; from += 4096) {
      const unsigned end = last - from < 4096 ? last : from + 4096;
      float sums[8] = {};
      unsigned c = from;
      for (; c + 8 <= end; c += 8)
        for (int l = 0; l < 8; ++l) sums[l] += in[c + l];
      for (; c < end; ++c) sums[0] += in[c];
      total += ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
    }
    parts[i] = total;
  }
}
extern "C" void add(const float* parts, float* y, int R) {
  for (int r = 0; r < R; ++r) {
    float sum = 0.0f;
    for (int p = 0; p < PARTS; ++p) sum += parts[static_cast<std::ptrdiff_t>(r) * PARTS + p];
    y[r] = sum;
  }
}
