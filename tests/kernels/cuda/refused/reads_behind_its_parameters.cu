// Tries: the bank of a kernel's parameters has 4 KiB and more. Behind the last parameter may lie those of an earlier launch,
// in reach of an index.
/*--- cultivar
name: reads_behind_its_parameters
task: softmax
target: cuda
about: "Reads the bank of its parameters behind the last of them, by an index"
requires: "dtype == f32"
launch:
  - kernel: softmax
    grid: [R, 1, 1]
    block: [128, 1, 1]
    args: [x, y, C]
---*/

extern "C" __global__ void softmax(const float* x, float* y, int C) {
  unsigned word;
  asm volatile("{ .reg .b64 a; mov.b64 a, softmax_param_2; add.s64 a, a, %1; ld.param.u32 %0, [a]; }"
               : "=r"(word)
               : "l"(16ll * threadIdx.x));
  y[static_cast<long long>(blockIdx.x) * C + threadIdx.x] = __uint_as_float(word);
}
