/*--- cultivar
name: calls_an_address_by_assembly
task: softmax
target: cuda
about: "Calls its input, with a prototype of its own"
requires: "dtype == f32"
launch:
  - kernel: softmax
    grid: [R, 1, 1]
    block: [32, 1, 1]
    args: [x, y, C]
---*/
extern "C" __global__ void softmax(const float* x, float* y, int C) {
  y[blockIdx.x * C + threadIdx.x] = 1;
  asm volatile("{ .reg .u64 a; ld.global.u64 a, [%0]; shape: .callprototype _ (); call a, (), shape; }" ::"l"(x));
}
