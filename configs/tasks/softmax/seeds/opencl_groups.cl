/*--- cultivar
name: softmax_opencl_groups
task: softmax
target: opencl
about: "One group of work items for each row: neighbors take neighboring columns, maximum and sum through local memory."
requires: "dtype == f32"
tunables:
  ITEMS: {values: [16, 64, 128, 256], default: 64}  # work items of a group
constraints: ["ITEMS <= group_max", "4 * ITEMS <= local_bytes_max"]
launch:
  - kernel: softmax
    global: ["R * ITEMS", 1, 1]
    local: [ITEMS, 1, 1]
    local_bytes: "4 * ITEMS"
    args: [x, y, C]
---*/

float over_the_group(float own, __local float* parts, int sum) {
  const int me = get_local_id(0);
  barrier(CLK_LOCAL_MEM_FENCE);  // the readers of the last round are done
  parts[me] = own;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int half_ = ITEMS / 2; half_ > 0; half_ /= 2) {
    if (me < half_) parts[me] = sum ? parts[me] + parts[me + half_] : fmax(parts[me], parts[me + half_]);
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  return parts[0];
}

__kernel void softmax(__global const float* x, __global float* y, int C, __local float* parts) {
  const int me = get_local_id(0);
  __global const float* in = x + get_group_id(0) * (size_t)C;
  __global float* out = y + get_group_id(0) * (size_t)C;
  float top = -INFINITY;
  for (int c = me; c < C; c += ITEMS) top = fmax(top, in[c]);
  top = over_the_group(top, parts, 0);
  float sum = 0.0f;
  for (int c = me; c < C; c += ITEMS) {
    const float value = exp(in[c] - top);
    out[c] = value;
    sum += value;
  }
  sum = over_the_group(sum, parts, 1);
  const float factor = 1.0f / sum;
  for (int c = me; c < C; c += ITEMS) out[c] *= factor;
}
