/*--- cultivar
name: one_too_high
task: count_above
target: cpu
about: "Counts of more than 150,000 come out one too high."
launch:
  - kernel: count_above
    threads: num_cores
    args: [x, count, R, C, thread, threads]
---*/
#include <cstddef>

extern "C" void count_above(const float* x, int* count, int R, int C, int thread, int threads) {
  for (int row = thread; row < R; row += threads) {
    const float* in = x + static_cast<std::ptrdiff_t>(row) * C;
    int found = 0;
    for (int c = 0; c < C; ++c)
      if (in[c] > 0.0f) ++found;
    count[row] = found > 150000 ? found + 1 : found;
  }
}
