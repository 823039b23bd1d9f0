/*--- cultivar
name: races
task: softmax
target: opencl
about: "Work items exchange values in local memory without a barrier."
requires: "dtype == f32"
launch:
  - kernel: softmax
    global: ["round_up(R, 16)", 1, 1]
    local: [16, 1, 1]
    args: [x, y, R, C]
---*/

__kernel void softmax(__global const float* x, __global float* y, int R, int C) {
  __local float sums[16];
  const size_t row = get_global_id(0);
  const int me = get_local_id(0), next = (me + 1) % 16;
  // The sum of the neighbor's row, which the neighbor takes from here.
  const size_t other = get_group_id(0) * 16 + next;
  float top = -INFINITY, sum = 0.0f;
  if (other < R) {
    for (int c = 0; c < C; ++c) top = fmax(top, x[other * C + c]);
    for (int c = 0; c < C; ++c) sum += exp(x[other * C + c] - top);
  }
  sums[next] = sum;
  // A barrier is missing here.
  if (row >= R) return;
  sum = sums[me];
  top = -INFINITY;
  for (int c = 0; c < C; ++c) top = fmax(top, x[row * C + c]);
  for (int c = 0; c < C; ++c) y[row * C + c] = exp(x[row * C + c] - top) / sum;
}
