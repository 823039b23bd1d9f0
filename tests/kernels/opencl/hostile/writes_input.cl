/*--- cultivar
name: writes_input
task: softmax
target: opencl
about: "Casts const away and writes to x."
requires: "dtype == f32"
launch:
  - kernel: softmax
    global: ["round_up(R, 16)", 1, 1]
    local: [16, 1, 1]
    args: [x, y, R, C]
---*/

__kernel void softmax(__global const float* x, __global float* y, int R, int C) {
  const size_t row = get_global_id(0);
  if (row >= R) return;
  float top = -INFINITY, sum = 0.0f;
  for (int c = 0; c < C; ++c) top = fmax(top, x[row * C + c]);
  for (int c = 0; c < C; ++c) sum += exp(x[row * C + c] - top);
  for (int c = 0; c < C; ++c) y[row * C + c] = exp(x[row * C + c] - top) / sum;
  ((__global float*)x)[row * C] = 0.0f;
}
