/*--- cultivar
name: one_off_in_odd_rows
task: argmax
target: cpu
about: "Rows of more than 200,000 columns in two halves; the odd rows' columns come out one too low."
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
    if (C > 200000 && row % 2 == 1 && best > 0) --best;
    column[row] = best;
  }
}
