/*--- cultivar
name: cluster_sum
task: softmax
target: cuda
about: "A cluster of blocks shares a row: partial maxima and sums travel through distributed shared memory"
requires: "dtype == f32"
tunables:
  BLOCKS: {values: [2, 4, 8], default: 4}
launch:
  - kernel: cluster_sum
    grid: [BLOCKS, R, 1]
    block: [256, 1, 1]
    cluster: [BLOCKS, 1, 1]
    args: [x, y, C]
---*/
__device__ float of_block(unsigned address, int rank) {
  unsigned there;
  float value;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(there) : "memory");
  return value;
}
__device__ void meet() {
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

// Each thread's value combined over all threads of the cluster.
__device__ float combined(float value, bool sum) {
  __shared__ float warps[8], block;
  for (int step = 16; step > 0; step /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, value, step);
    value = sum ? value + other : fmaxf(value, other);
  }
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int w = 1; w < 8; ++w) value = sum ? value + warps[w] : fmaxf(value, warps[w]);
    block = value;
  }
  meet();
  value = of_block(static_cast<unsigned>(__cvta_generic_to_shared(&block)), 0);
  for (int rank = 1; rank < BLOCKS; ++rank) {
    const float other = of_block(static_cast<unsigned>(__cvta_generic_to_shared(&block)), rank);
    value = sum ? value + other : fmaxf(value, other);
  }
  meet();
  return value;
}

extern "C" __global__ void __launch_bounds__(256) cluster_sum(const float* x, float* y, int C) {
  const float* in = x + static_cast<long long>(blockIdx.y) * C;
  float* out = y + static_cast<long long>(blockIdx.y) * C;
  const int first = blockIdx.x * 256 + threadIdx.x, step = BLOCKS * 256;
  float top = __int_as_float(0xff800000), sum = 0.0f;
  for (int c = first; c < C; c += step) top = fmaxf(top, in[c]);
  top = combined(top, false);
  for (int c = first; c < C; c += step) sum += expf(in[c] - top);
  sum = combined(sum, true);
  for (int c = first; c < C; c += step) out[c] = expf(in[c] - top) / sum;
}
