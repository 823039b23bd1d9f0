/*--- cultivar
name: child_launch
task: softmax
target: cuda
about: "Launches a kernel from the device"
requires: "dtype == f32"
launch:
  - kernel: softmax
    grid: [R, 1, 1]
    block: [32, 1, 1]
    args: [x, y, C]
---*/
__global__ void inner(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x]; }

extern "C" __global__ void softmax(const float* x, float* y, int C) {
  if (threadIdx.x == 0) inner<<<1, C>>>(x + blockIdx.x * C, y + blockIdx.x * C);
}
