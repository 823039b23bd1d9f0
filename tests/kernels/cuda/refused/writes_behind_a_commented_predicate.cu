/*--- cultivar
name: writes_behind_a_commented_predicate
task: softmax
target: cuda
about: "Stores into a table; a comment separates the predicate from the opcode"
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
  asm volatile("{.reg .pred p; setp.ne.s32 p, %1, 0; @p/**/st.global.u32 [%0], %1;}" ::"l"((unsigned long long)table), "r"(C) : "memory");
  y[blockIdx.x * C + threadIdx.x] = x[blockIdx.x * C + threadIdx.x];
}
