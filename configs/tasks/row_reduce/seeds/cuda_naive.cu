/*--- cultivar
name: row_reduce_block_per_row
task: row_reduce
target: cuda
about: "One block per row, one element at a time."
tunables:
  THREADS: {values: [128, 256, 512, 1024], default: 256}
specialize: [dtype]
launch:
  - kernel: row_reduce
    grid: [R, 1, 1]
    block: [THREADS, 1, 1]
    args: [x, y, C]
---*/

// The baseline: any shape is taken.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

extern "C" __global__ void __launch_bounds__(THREADS) row_reduce(const DTYPE* x, float* y, int C) {
  __shared__ float partial[THREADS / 32];
  const DTYPE* in = x + static_cast<long long>(blockIdx.x) * C;
  float sum = 0.0f;
  for (int c = threadIdx.x; c < C; c += THREADS) sum += static_cast<float>(in[c]);
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int w = 1; w < THREADS / 32; ++w) sum += partial[w];
  y[blockIdx.x] = sum;
}
