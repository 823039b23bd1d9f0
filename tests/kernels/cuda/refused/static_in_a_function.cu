/*--- cultivar
name: static_in_a_function
task: softmax
target: cuda
about: "Keeps the last result in a static variable of the kernel"
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
  static __device__ float last;
  for (int c = threadIdx.x; c < C; c += 32) out[c] = last;
  last = in[0];
}
