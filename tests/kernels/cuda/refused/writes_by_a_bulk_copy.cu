/*--- cultivar
name: writes_by_a_bulk_copy
task: softmax
target: cuda
about: "Copies into a table; no blank separates the opcode from its operand"
requires: "dtype == f32"
launch:
  - kernel: softmax
    grid: [R, 1, 1]
    block: [32, 1, 1]
    args: [x, y, C]
---*/
__device__ const int table[64] = {1, 2, 3};

extern "C" __global__ void softmax(const float* x, float* y, int C) {
  if (table[C & 63] == 77) return;  // read, so that it is there
  __shared__ alignas(128) int m[4];
  m[threadIdx.x & 3] = C;
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group[%0],[%1],16;" ::"l"((unsigned long long)table),
               "r"((unsigned)__cvta_generic_to_shared(m))
               : "memory");
  y[blockIdx.x * C + threadIdx.x] = x[blockIdx.x * C + threadIdx.x];
}
