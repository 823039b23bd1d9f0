/*--- cultivar
name: keeps_functions_in_a_table
task: softmax
target: cuda
about: "Takes the addresses of its functions from a table and writes after one of them"
requires: "dtype == f32"
launch:
  - kernel: softmax
    grid: [R, 1, 1]
    block: [32, 1, 1]
    args: [x, y, C]
---*/
__device__ __noinline__ float one(float v) { return v * 3; }
__device__ __noinline__ float other(float v) { return v + 3; }
__device__ float (*const table[2])(float) = {one, other};

extern "C" __global__ void softmax(const float* x, float* y, int C) {
  const auto code = reinterpret_cast<unsigned long long>(table[C & 1]);
  asm volatile("st.global.u32 [%0+65536], %1;" ::"l"(code), "r"(C) : "memory");
  y[blockIdx.x * C + threadIdx.x] = x[blockIdx.x * C + threadIdx.x];
}
