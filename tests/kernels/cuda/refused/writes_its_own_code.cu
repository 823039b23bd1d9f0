/*--- cultivar
name: writes_its_own_code
task: softmax
target: cuda
about: "Keeps a number in the memory of its own instructions"
requires: "dtype == f32"
launch:
  - kernel: softmax
    grid: [R, 1, 1]
    block: [32, 1, 1]
    args: [x, y, C]
---*/
extern "C" __global__ void softmax(const float* x, float* y, int C) {
  unsigned long long code;
  asm volatile("mov.u64 %0, softmax;" : "=l"(code));
  asm volatile("st.global.u32 [%0+65536], %1;" ::"l"(code), "r"(C) : "memory");
  y[blockIdx.x * C + threadIdx.x] = x[blockIdx.x * C + threadIdx.x];
}
