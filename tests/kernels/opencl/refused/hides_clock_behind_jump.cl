/*--- cultivar
name: hides_clock_behind_jump
task: softmax
target: opencl
about: "Reads the time stamp counter behind a jump over a byte that begins another instruction."
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
  uint low = 0, high = 0;
  __asm__ volatile("jmp 1f\n.byte 0x48, 0xb8\n1: rdtsc\n.byte 0x90, 0x90, 0x90, 0x90, 0x90, 0x90" : "=a"(low), "=d"(high));
  if (row == 0) y[0] += 1e-30f * (float)low;
}
