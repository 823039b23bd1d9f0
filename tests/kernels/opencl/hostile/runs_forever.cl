/*--- cultivar
name: runs_forever
task: softmax
target: opencl
about: "Its first work item never ends."
requires: "dtype == f32"
launch:
  - kernel: softmax
    global: ["round_up(R, 16)", 1, 1]
    local: [16, 1, 1]
    args: [x, y, R, C]
---*/

__kernel void softmax(__global const float* x, __global float* y, int R, int C) {
  const size_t row = get_global_id(0);
  volatile __global float* out = y;
  while (row == 0) out[0] = 1.0f;
  if (row >= R) return;
  float top = -INFINITY, sum = 0.0f;
  for (int c = 0; c < C; ++c) top = fmax(top, x[row * C + c]);
  for (int c = 0; c < C; ++c) sum += exp(x[row * C + c] - top);
  for (int c = 0; c < C; ++c) y[row * C + c] = exp(x[row * C + c] - top) / sum;
}
