/*--- cultivar
name: rmsnorm_backward_atomics
task: rmsnorm_backward
target: cuda
about: "One block per row, one element at a time; dw is summed by atomics in f32, so its last bits differ from run to run."
tunables:
  THREADS: {values: [128, 256, 512, 1024], default: 256}
specialize: [dtype]
workspace:
  sums: {bytes: "4 * C", zero: true}
launch:
  - kernel: gradients
    grid: [R, 1, 1]
    block: [THREADS, 1, 1]
    args: [dy, x, w, rstd, dx, sums, C]
  - kernel: round_sums
    grid: ["ceil_div(C, 256)", 1, 1]
    block: [256, 1, 1]
    args: [sums, dw, C]
---*/

// The baseline: any shape is taken.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

extern "C" __global__ void __launch_bounds__(THREADS)
    gradients(const DTYPE* dy, const DTYPE* x, const DTYPE* w, const float* rstd, DTYPE* dx, float* sums, int C) {
  __shared__ float partial[THREADS / 32];
  const long long row = blockIdx.x;
  const float scale = rstd[row];
  float sum = 0.0f;
  for (int c = threadIdx.x; c < C; c += THREADS)
    sum += static_cast<float>(dy[row * C + c]) * static_cast<float>(w[c]) *
           (static_cast<float>(x[row * C + c]) * scale);
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = 0.0f;
  for (int i = 0; i < THREADS / 32; ++i) sum += partial[i];
  const float mean = sum / static_cast<float>(C);
  for (int c = threadIdx.x; c < C; c += THREADS) {
    const float g = static_cast<float>(dy[row * C + c]), n = static_cast<float>(x[row * C + c]) * scale;
    dx[row * C + c] = DTYPE(scale * (g * static_cast<float>(w[c]) - n * mean));
    atomicAdd(sums + c, g * n);
  }
}

extern "C" __global__ void __launch_bounds__(256) round_sums(const float* sums, DTYPE* dw, int C) {
  const int c = blockIdx.x * 256 + threadIdx.x;
  if (c < C) dw[c] = DTYPE(sums[c]);
}
