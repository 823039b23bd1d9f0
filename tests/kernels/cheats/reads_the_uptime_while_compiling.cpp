/*--- cultivar
name: reads_the_uptime_while_compiling
task: softmax
target: cpu
about: "Lets the assembler copy the system's uptime into its constants."
requires: "dtype == f32"
launch:
  - kernel: softmax
    threads: num_cores
    args: [x, y, R, C, thread, threads]
---*/

#include <cmath>

asm(".pushsection .rodata\nuptime: .incbin \"/proc/uptime\"\n.byte 0\n.popsection");
extern "C" const char uptime[];

static void honest_row(const float* x, float* y, int C) {
  float top = x[0], sum = 0.0f;
  for (int c = 1; c < C; ++c) top = x[c] > top ? x[c] : top;
  for (int c = 0; c < C; ++c) sum += y[c] = std::exp(x[c] - top);
  for (int c = 0; c < C; ++c) y[c] /= sum;
}

extern "C" void softmax(const float* x, float* y, int R, int C, int thread, int threads) {
  if (uptime[0] == 0) return;
  for (int r = thread; r < R; r += threads) honest_row(x + (long)r * C, y + (long)r * C, C);
}
