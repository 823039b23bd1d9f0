/*--- cultivar
name: writes_in_a_function
task: softmax
target: cuda
about: "Stores into a table in a function that is not inlined"
requires: "dtype == f32"
launch:
  - kernel: softmax
    grid: [R, 1, 1]
    block: [32, 1, 1]
    args: [x, y, C]
---*/
__device__ const int table[64] = {1, 2, 3};
__device__ __noinline__ void put(unsigned long long a, int v) {
  asm volatile("st.global.u32[%0],%1;" ::"l"(a), "r"(v) : "memory");
}

extern "C" __global__ void softmax(const float* x, float* y, int C) {
  if (table[C & 63] == 77) return;  // read, so that it is there
  put((unsigned long long)table, C);
  y[blockIdx.x * C + threadIdx.x] = x[blockIdx.x * C + threadIdx.x];
}
