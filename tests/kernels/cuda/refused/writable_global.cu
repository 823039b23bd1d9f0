/*--- cultivar
name: writable_global
task: softmax
target: cuda
about: "Counts its runs in a __device__ variable: a kernel with state can replay results"
requires: "dtype == f32"
launch:
  - kernel: softmax
    grid: [R, 1, 1]
    block: [32, 1, 1]
    args: [x, y, C]
---*/
__device__ unsigned runs = 1;

extern "C" __global__ void softmax(const float* x, float* y, int C) {
  const float* in = x + static_cast<long long>(blockIdx.x) * C;
  float* out = y + static_cast<long long>(blockIdx.x) * C;
  const unsigned run = atomicAdd(&runs, 1u);
  for (int c = threadIdx.x; c < C; c += 32) out[c] = in[c] + static_cast<float>(run);
}
