/*--- cultivar
name: missing_kernel
task: softmax
target: cuda
about: "The kernel has C++ linkage and therefore another name"
requires: "dtype == f32"
launch:
  - kernel: softmax
    grid: [R, 1, 1]
    block: [32, 1, 1]
    args: [x, y, C]
---*/
__global__ void softmax(const float* x, float* y, int C) { y[blockIdx.x * C] = x[blockIdx.x * C]; }
