/*--- cultivar
name: offsets_in_32_bits
task: row_reduce
target: cuda
about: "A row's offset is a product of ints: from 2^31 elements on, rows are read before the tensor."
specialize: [dtype]
launch:
  - kernel: row_reduce
    grid: [R, 1, 1]
    block: [256, 1, 1]
    args: [x, y, C]
---*/
#include <cuda_bf16.h>
#include <cuda_fp16.h>

extern "C" __global__ void row_reduce(const DTYPE* x, float* y, int C) {
  __shared__ float parts[256];
  const int offset = blockIdx.x * C;
  float sum = 0.0f;
  for (int c = threadIdx.x; c < C; c += 256) sum += float(x[offset + c]);
  parts[threadIdx.x] = sum;
  __syncthreads();
  for (int half = 128; half > 0; half /= 2) {
    if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) y[blockIdx.x] = parts[0];
}
