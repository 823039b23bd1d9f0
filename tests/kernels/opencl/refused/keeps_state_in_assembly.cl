/*--- cultivar
name: keeps_state_in_assembly
task: softmax
target: opencl
about: "Counts its runs in a variable of inline assembly."
requires: "dtype == f32"
launch:
  - kernel: softmax
    global: ["round_up(R, 16)", 1, 1]
    local: [16, 1, 1]
    args: [x, y, R, C]
---*/

__kernel void softmax(__global const float* x, __global float* y, int R, int C) {
  const size_t row = get_global_id(0);
  if (row >= R) return;
  float top = -INFINITY, sum = 0.0f;
  for (int c = 0; c < C; ++c) top = fmax(top, x[row * C + c]);
  for (int c = 0; c < C; ++c) sum += exp(x[row * C + c] - top);
  for (int c = 0; c < C; ++c) y[row * C + c] = exp(x[row * C + c] - top) / sum;
  if (row == 0) {
    long result;
    __asm__ volatile(".local runs\n.comm runs,8,8\nincq runs(%%rip)\nmovq runs(%%rip), %0" : "=r"(result)::"memory");
  }
}
