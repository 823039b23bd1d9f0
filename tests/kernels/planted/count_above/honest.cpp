/*--- cultivar
name: count_honest
task: count_above
target: cpu
about: "One column after the other."
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
    count[row] = found;
  }
}
