/*--- cultivar
name: missing_kernel
task: softmax
target: cuda
about: "Its kernel has C++ linkage, so that its name is another"
requires: "dtype == f32"
launch:
  - kernel: softmax
    grid: [R, 1, 1]
    block: [32, 1, 1]
    args: [x, y, C]
---*/
__global__ void softmax(const float* x, float* y, int C) { y[blockIdx.x * C] = x[blockIdx.x * C]; }
