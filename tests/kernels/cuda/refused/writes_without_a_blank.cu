/*--- cultivar
name: writes_without_a_blank
task: softmax
target: cuda
about: "Stores into a table; no blank separates the opcode from its operand"
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
  asm volatile("st.global.u32[%0],%1;" ::"l"((unsigned long long)table), "r"(C) : "memory");
  y[blockIdx.x * C + threadIdx.x] = x[blockIdx.x * C + threadIdx.x];
}
