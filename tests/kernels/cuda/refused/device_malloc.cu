/*--- cultivar
name: device_malloc
task: softmax
target: cuda
about: "Allocates on the device heap"
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
  float* copy = static_cast<float*>(malloc(4 * C));
  for (int c = threadIdx.x; c < C; c += 32) copy[c] = in[c];
  for (int c = threadIdx.x; c < C; c += 32) out[c] = copy[c];
  free(copy);
}
