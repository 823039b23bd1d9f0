/*--- cultivar
name: argmax_honest
task: argmax
target: cpu
about: "One column after the other."
launch:
  - kernel: argmax
    threads: num_cores
    args: [x, column, R, C, thread, threads]
---*/
#include <cstddef>

extern "C" void argmax(const float* x, int* column, int R, int C, int thread, int threads) {
  for (int row = thread; row < R; row += threads) {
    const float* in = x + static_cast<std::ptrdiff_t>(row) * C;
    int best = 0;
    for (int c = 1; c < C; ++c)
      if (in[c] > in[best]) best = c;
    column[row] = best;
  }
}
