/*--- cultivar
name: reads_a_secret_while_compiling
task: softmax
target: cuda
about: "Includes a file of the machine it is compiled on"
requires: "dtype == f32"
launch:
  - kernel: softmax
    grid: [R, 1, 1]
    block: [32, 1, 1]
    args: [x, y, C]
---*/
#include "/etc/passwd"

extern "C" __global__ void softmax(const float* x, float* y, int C) { y[C] = x[0]; }
