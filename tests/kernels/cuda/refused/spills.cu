/*--- cultivar
name: spills
task: softmax
target: cuda
about: "Keeps more live values than a thread has registers"
requires: "dtype == f32"
launch:
  - kernel: softmax
    grid: [R, 1, 1]
    block: [32, 1, 1]
    args: [x, y, C]
---*/
extern "C" __global__ void __launch_bounds__(1024, 2) softmax(const float* x, float* y, int C) {
  float v[96];
#pragma unroll
  for (int i = 0; i < 96; ++i) v[i] = x[i * C + threadIdx.x];
  for (int round = 0; round < C; ++round)
#pragma unroll
    for (int i = 0; i < 96; ++i) v[i] = v[i] * v[(i + 7) % 96] + v[(i * 5 + 1) % 96];
#pragma unroll
  for (int i = 0; i < 96; ++i) y[i * C + threadIdx.x] = v[i];
}
