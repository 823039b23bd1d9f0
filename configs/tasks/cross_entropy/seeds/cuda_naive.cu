/*--- cultivar
name: cross_entropy_block_per_row
task: cross_entropy
target: cuda
about: "One block per row, one element at a time; the row is read three times."
tunables:
  THREADS: {values: [128, 256, 512, 1024], default: 256}
specialize: [dtype]
launch:
  - kernel: cross_entropy
    grid: [R, 1, 1]
    block: [THREADS, 1, 1]
    args: [logits, targets, loss, dlogits, V, ignore_index]
---*/

// The baseline: any shape is taken.

#include <cuda_bf16.h>

__device__ float combined(float value, bool sum) {
  __shared__ float partial[32];
  for (int step = 16; step > 0; step /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, value, step);
    value = sum ? value + other : fmaxf(value, other);
  }
  __syncthreads();  // the last round's readers are done
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  value = partial[0];
  for (int w = 1; w < THREADS / 32; ++w) value = sum ? value + partial[w] : fmaxf(value, partial[w]);
  return value;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    cross_entropy(const DTYPE* logits, const long long* targets, float* loss, DTYPE* dlogits, int V, int ignore_index) {
  const DTYPE* in = logits + static_cast<long long>(blockIdx.x) * V;
  DTYPE* out = dlogits + static_cast<long long>(blockIdx.x) * V;
  const long long target = targets[blockIdx.x];
  if (target == ignore_index) {
    for (int v = threadIdx.x; v < V; v += THREADS) out[v] = DTYPE(0.0f);
    if (threadIdx.x == 0) loss[blockIdx.x] = 0.0f;
    return;
  }
  float top = __int_as_float(0xff800000);  // -inf
  for (int v = threadIdx.x; v < V; v += THREADS) top = fmaxf(top, static_cast<float>(in[v]));
  top = combined(top, false);
  float sum = 0.0f;
  for (int v = threadIdx.x; v < V; v += THREADS) sum += expf(static_cast<float>(in[v]) - top);
  sum = combined(sum, true);
  for (int v = threadIdx.x; v < V; v += THREADS)
    out[v] = DTYPE(expf(static_cast<float>(in[v]) - top) / sum - (v == target ? 1.0f : 0.0f));
  if (threadIdx.x == 0) loss[blockIdx.x] = logf(sum) + (top - static_cast<float>(in[target]));
}
