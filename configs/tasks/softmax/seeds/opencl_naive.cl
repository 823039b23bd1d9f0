/*--- cultivar
name: softmax_opencl_naive
task: softmax
target: opencl
about: "One work item for each row in three loops: maximum, exponentials and their sum, division; LANES columns side by side."
requires: "dtype == f32"
tunables:
  LANES: {values: [1, 4, 8, 16, 32], default: 1}  # partial maxima and sums
  ITEMS: {values: [1, 4, 16, 64], default: 16}    # work items of a group
launch:
  - kernel: softmax
    global: ["round_up(R, ITEMS)", 1, 1]
    local: [ITEMS, 1, 1]
    args: [x, y, R, C]
---*/

// The baseline. Any shape is taken.

__kernel void softmax(__global const float* x, __global float* y, int R, int C) {
  const size_t row = get_global_id(0);
  if (row >= R) return;
  __global const float* in = x + row * C;
  __global float* out = y + row * C;
  float tops[LANES], sums[LANES];
  for (int l = 0; l < LANES; ++l) tops[l] = -INFINITY, sums[l] = 0.0f;
  int c = 0;
  for (; c + LANES <= C; c += LANES)
    for (int l = 0; l < LANES; ++l) tops[l] = fmax(tops[l], in[c + l]);
  for (; c < C; ++c) tops[0] = fmax(tops[0], in[c]);
  float top = tops[0];
  for (int l = 1; l < LANES; ++l) top = fmax(top, tops[l]);
  for (c = 0; c + LANES <= C; c += LANES)
    for (int l = 0; l < LANES; ++l) {
      const float value = exp(in[c + l] - top);
      out[c + l] = value;
      sums[l] += value;
    }
  for (; c < C; ++c) {
    out[c] = exp(in[c] - top);
    sums[0] += out[c];
  }
  float sum = 0.0f;
  for (int l = 0; l < LANES; ++l) sum += sums[l];
  for (c = 0; c < C; ++c) out[c] /= sum;
}
