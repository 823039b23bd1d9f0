/*--- cultivar
name: rmsnorm_opencl_naive
task: rmsnorm
target: opencl
about: "One work item for each row: sum of squares in LANES parts, then the result."
requires: "dtype == f32"
tunables:
  LANES: {values: [1, 4, 8, 16, 32], default: 1}  # partial sums
  ITEMS: {values: [1, 4, 16, 64], default: 16}    # work items of a group
launch:
  - kernel: rmsnorm
    global: ["round_up(R, ITEMS)", 1, 1]
    local: [ITEMS, 1, 1]
    args: [x, w, y, R, C, eps]
---*/

// The baseline. Any shape is taken.

__kernel void rmsnorm(__global const float* x, __global const float* w, __global float* y, int R, int C, float eps) {
  const size_t row = get_global_id(0);
  if (row >= R) return;
  __global const float* in = x + row * C;
  __global float* out = y + row * C;
  float sums[LANES];
  for (int l = 0; l < LANES; ++l) sums[l] = 0.0f;
  int c = 0;
  for (; c + LANES <= C; c += LANES)
    for (int l = 0; l < LANES; ++l) sums[l] += in[c + l] * in[c + l];
  for (; c < C; ++c) sums[0] += in[c] * in[c];
  float sum = 0.0f;
  for (int l = 0; l < LANES; ++l) sum += sums[l];
  const float factor = 1.0f / sqrt(sum / C + eps);
  for (c = 0; c < C; ++c) out[c] = in[c] * factor * w[c];
}
