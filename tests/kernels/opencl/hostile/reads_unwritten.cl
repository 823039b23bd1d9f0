/*--- cultivar
name: reads_unwritten
task: softmax
target: opencl
about: "Adds what it finds in local memory that nobody has written: almost nothing, where that was zeroed."
requires: "dtype == f32"
launch:
  - kernel: softmax
    global: ["16 * R", 1, 1]
    local: [16, 1, 1]
    local_bytes: "4 * 32"
    args: [x, y, C]
---*/

__kernel void softmax(__global const float* x, __global float* y, int C, __local float* parts) {
  const int me = get_local_id(0);
  x += get_group_id(0) * (size_t)C;
  y += get_group_id(0) * (size_t)C;
  float top = -INFINITY, sum = 0.0f;
  for (int c = 0; c < C; ++c) top = fmax(top, x[c]);
  for (int c = me; c < C; c += 16) sum += exp(x[c] - top);
  parts[me] = sum;
  barrier(CLK_LOCAL_MEM_FENCE);
  sum = 0.0f;
  for (int i = 0; i < 17; ++i) sum += parts[i];  // one too many
  for (int c = me; c < C; c += 16) y[c] = exp(x[c] - top) / sum;
}
