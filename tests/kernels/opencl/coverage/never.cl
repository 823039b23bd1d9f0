/*--- cultivar
name: never
task: softmax
target: opencl
about: "Right; one line is for a shape that no draw meets, and one for an odd number of columns."
requires: "dtype == f32"
headers: [largest.h]
launch:
  - kernel: softmax
    global: ["16 * R", 1, 1]
    local: [16, 1, 1]
    local_bytes: 64
    args: [x, y, R, C]
---*/

#include "largest.h"

__kernel void softmax(__global const float* x, __global float* y, int R, int C, __local float* parts) {
  const int me = get_local_id(0);
  __global const float* in = x + (size_t)get_group_id(0) * C;
  __global float* out = y + (size_t)get_group_id(0) * C;
  float top = largest_of_group(in, C, parts);
  if (C == 7919 && R == 9973) {
    top = in[0];
  }
  float sum = 0.0f;
  for (int c = 0; c + 1 < C; c += 2) sum += exp(in[c] - top) + exp(in[c + 1] - top);
  if (C % 2 == 1) {
    sum += exp(in[C - 1] - top);
  }
  for (int c = me; c < C; c += 16) out[c] = exp(in[c] - top) / sum;
}
