/*--- cultivar
name: keeps_functions_in_constants
task: softmax
target: cuda
about: "Takes the addresses of its functions from constant memory"
requires: "dtype == f32"
launch:
  - kernel: softmax
    grid: [R, 1, 1]
    block: [32, 1, 1]
    args: [x, y, C]
---*/
__device__ __noinline__ float one(float v) { return v * 3; }
__device__ __noinline__ float other(float v) { return v + 3; }
__constant__ float (*const table[2])(float) = {one, other};

extern "C" __global__ void softmax(const float* x, float* y, int C) {
  *reinterpret_cast<volatile int*>(table[C & 1]) = C;
  y[blockIdx.x * C + threadIdx.x] = x[blockIdx.x * C + threadIdx.x];
}
