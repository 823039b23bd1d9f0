/*--- cultivar
name: races
task: softmax
target: cuda
about: "Adds partial sums in arbitrary order to the old contents"
requires: "dtype == f32"
launch:
  - kernel: softmax
    grid: [R, 1, 1]
    block: [128, 1, 1]
    args: [x, y, C]
---*/
extern "C" __global__ void softmax(const float* x, float* y, int C) {
  __shared__ float sum;
  const float* in = x + static_cast<long long>(blockIdx.x) * C;
  float* out = y + static_cast<long long>(blockIdx.x) * C;
  if (threadIdx.x == 0) sum = 0.0f;
  __syncthreads();
  float top = __int_as_float(0xff800000);
  for (int c = 0; c < C; ++c) top = fmaxf(top, in[c]);
  for (int c = threadIdx.x; c < C; c += 128) atomicAdd(&sum, expf(in[c] - top));
  __syncthreads();
  for (int c = threadIdx.x; c < C; c += 128) out[c] = expf(in[c] - top) / sum;
}
