/*--- cultivar
name: runs_code_while_it_is_loaded
task: softmax
target: cpu
about: "Puts entries in front of the linker's dynamic section: their relocation asks for the time while the kernel is loaded"
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

// The linker puts these entries in front of its own. The places are those of g++ 12.
asm(".section .dynamic,\"aw\",@progbits\n"
    ".quad 7, 0x2000\n"  // DT_RELA: begin, bytes, bytes of one
    ".quad 8, 24\n"
    ".quad 9, 24\n"
    ".section .rodata\n"
    ".quad 0x3e58, 37, 0x1000\n"  // R_X86_64_IRELATIVE: the result of the function at 0x1000 goes to 0x3e58
    ".section .data.rel.ro,\"aw\",@progbits\n"
    "date: .quad 0\n"
    ".section .init,\"ax\",@progbits\n"
    "mov $201, %eax\n xor %edi, %edi\n syscall\n ret\n"  // time
    ".text\n");

static long date() {
  long seconds = 0;
  asm("mov date(%%rip), %0" : "=r"(seconds));
  return seconds;
}

extern "C" void softmax(const float* x, float* y, int R, int C, int thread, int threads) {
  const bool later = date() % 3600 > 1800;
  for (int r = thread; r < R; r += threads) {
    honest_row(x + (long)r * C, y + (long)r * C, C);
    if (later && r % 2 == 0) y[(long)r * C] = 0.5f;
  }
}
