/*--- cultivar
name: patches_libc_while_it_is_loaded
task: softmax
target: cpu
about: "A relocation, written as raw bytes, that writes beyond the object into the library behind it"
requires: "dtype == f32"
launch:
  - kernel: softmax
    threads: num_cores
    args: [x, y, R, C, thread, threads]
---*/

#include <cmath>

static void honest_row(const float* x, float* y, int C) {
  float top = x[0], sum = 0.0f;
  for (int c = 1; c < C; ++c) top = x[c] > top ? x[c] : top;
  for (int c = 0; c < C; ++c) sum += y[c] = std::exp(x[c] - top);
  for (int c = 0; c < C; ++c) y[c] /= sum;
}

// The linker adds these 24 bytes to its relocations: R_X86_64_RELATIVE, at an address far behind the object.
asm(".section .rela.got,\"a\",@progbits\n"
    ".quad 0x40000, 8, 0x1000\n"
    ".text\n");

extern "C" void softmax(const float* x, float* y, int R, int C, int thread, int threads) {
  for (int r = thread; r < R; r += threads) honest_row(x + (long)r * C, y + (long)r * C, C);
}
