/*--- cultivar
name: row_reduce_opencl_naive
task: row_reduce
target: opencl
about: "PARTS work items for each row, each with LANES partial sums of a stretch; a second kernel adds the parts."
requires: "dtype == f32"
tunables:
  LANES: {values: [1, 8, 16, 32, 64], default: 1}
  PARTS: {values: [1, 2, 4, 8, 16], default: 1}
let:
  stretch: "round_up(ceil_div(C, PARTS), 64)"
workspace:
  parts: {bytes: "4 * PARTS * R"}
launch:
  - kernel: row_reduce
    global: [PARTS, R, 1]
    local: [1, 1, 1]
    args: [x, parts, C, stretch]
  - kernel: add_parts
    global: ["round_up(R, 16)", 1, 1]
    local: [16, 1, 1]
    args: [parts, y, R]
---*/

// The baseline. Any shape is taken.

__kernel void row_reduce(__global const float* x, __global float* parts, int C, int stretch) {
  __global const float* in = x + get_global_id(1) * C;
  const int first = get_global_id(0) * stretch, last = min(first + stretch, C);
  float total = 0.0f;
  // In pieces, so that the rounding errors of a long row do not pile up in one sum.
  for (int from = first; from < last; from += 1024) {
    const int end = min(from + 1024, last);
    float sums[LANES];
    for (int l = 0; l < LANES; ++l) sums[l] = 0.0f;
    int c = from;
    for (; c + LANES <= end; c += LANES)
      for (int l = 0; l < LANES; ++l) sums[l] += in[c + l];
    for (; c < end; ++c) sums[0] += in[c];
    float sum = 0.0f;
    for (int l = 0; l < LANES; ++l) sum += sums[l];
    total += sum;
  }
  parts[get_global_id(1) * PARTS + get_global_id(0)] = total;
}

__kernel void add_parts(__global const float* parts, __global float* y, int R) {
  const size_t row = get_global_id(0);
  if (row >= R) return;
  float sum = 0.0f;
  for (int p = 0; p < PARTS; ++p) sum += parts[row * PARTS + p];
  y[row] = sum;
}
