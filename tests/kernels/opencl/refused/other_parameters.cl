/*--- cultivar
name: other_parameters
task: softmax
target: opencl
about: "Takes a float for C."
requires: "dtype == f32"
launch:
  - kernel: softmax
    global: ["round_up(R, 16)", 1, 1]
    local: [16, 1, 1]
    args: [x, y, R, C]
---*/

__kernel void softmax(__global const float* x, __global float* y, int R, float C) {
  const size_t row = get_global_id(0);
  if (row < R) y[row] = x[row] * C;
}
