// Tries: the parameters' bank at an address that is a number and belongs to no parameter, behind the name of a register.
/*--- cultivar
name: reads_parameters_by_number
task: softmax
target: cuda
about: "Reads the bank of parameters by a number"
requires: "dtype == f32"
launch:
  - kernel: softmax
    grid: [R, 1, 1]
    block: [128, 1, 1]
    args: [x, y, C]
---*/

extern "C" __global__ void softmax(const float* x, float* y, int C) {
  unsigned word;
  asm volatile("ld.param.u32 %0, [%1];" : "=r"(word) : "l"(4ull * threadIdx.x));
  y[static_cast<long long>(blockIdx.x) * C + threadIdx.x] = static_cast<float>(word);
}
