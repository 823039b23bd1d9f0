/*--- cultivar
name: prints
task: softmax
target: cuda
about: "Prints from the device"
requires: "dtype == f32"
launch:
  - kernel: softmax
    grid: [R, 1, 1]
    block: [32, 1, 1]
    args: [x, y, C]
---*/
extern "C" __global__ void softmax(const float* x, float* y, int C) {
  const float* in = x + static_cast<long long>(blockIdx.x) * C;
  float* out = y + static_cast<long long>(blockIdx.x) * C;
  for (int c = threadIdx.x; c < C; c += 32) out[c] = in[c];
  if (threadIdx.x == 0) printf("row %d\n", blockIdx.x);
}
