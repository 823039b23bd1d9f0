/*--- cultivar
name: missing_kernel
task: softmax
target: cpu
about: "The manifest names a function that the source does not define."
requires: "dtype == f32"
launch:
  - kernel: softmax
    threads: num_cores
    args: [x, y, R, C, thread, threads]
---*/

#include <cmath>

extern "C" void soft_max(const float* x, float* y, int, int, int, int) {
  y[0] = x[0];
}
