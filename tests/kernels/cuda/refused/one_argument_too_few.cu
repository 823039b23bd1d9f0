/*--- cultivar
name: one_argument_too_few
task: softmax
target: cuda
about: "The kernel has a parameter that the manifest does not pass"
requires: "dtype == f32"
launch:
  - kernel: softmax
    grid: [R, 1, 1]
    block: [32, 1, 1]
    args: [x, y, C]
---*/
extern "C" __global__ void softmax(const float* x, float* y, int C, int columns) { y[C + columns] = x[0]; }
