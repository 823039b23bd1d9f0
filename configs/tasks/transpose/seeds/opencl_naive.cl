/*--- cultivar
name: transpose_opencl_naive
task: transpose
target: opencl
about: "One work item for a tile of TALL rows and WIDE columns of x; each element is moved on its own."
requires: "dtype == f32"
tunables:
  TALL: {values: [1, 4, 8, 16, 32], default: 1}
  WIDE: {values: [1, 4, 8, 16, 32], default: 1}
  ITEMS: {values: [1, 4, 16, 64], default: 16}  # work items of a group, side by side along the columns
launch:
  - kernel: transpose
    global: ["round_up(ceil_div(C, WIDE), ITEMS)", "ceil_div(R, TALL)", B]
    local: [ITEMS, 1, 1]
    args: [x, y, R, C]
---*/

// The baseline. Any shape is taken.

__kernel void transpose(__global const float* x, __global float* y, int R, int C) {
  const int left = get_global_id(0) * WIDE, top = get_global_id(1) * TALL;
  const int right = min(left + WIDE, C), bottom = min(top + TALL, R);
  x += get_global_id(2) * R * C;
  y += get_global_id(2) * R * C;
  for (int c = left; c < right; ++c)
    for (int r = top; r < bottom; ++r) y[(size_t)c * R + r] = x[(size_t)r * C + c];
}
