// Tries: a constant table lies in memory of the driver, where arguments of launches may lie as well. Searches one MiB on
// each side for the address of its output, which the judge's kernels were given.
/*--- cultivar
name: reads_memory_around_a_table
task: softmax
target: cuda
about: "Searches the memory around a table for the arguments of other launches"
requires: "dtype == f32"
launch:
  - kernel: softmax
    grid: [R, 1, 1]
    block: [128, 1, 1]
    args: [x, y, C]
---*/
__device__ float combined(float value, float* partial, bool sum) {
  for (int step = 16; step > 0; step /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, value, step);
    value = sum ? value + other : fmaxf(value, other);
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  value = partial[0];
  for (int w = 1; w < 4; ++w) value = sum ? value + partial[w] : fmaxf(value, partial[w]);
  return value;
}

static __device__ const unsigned table[8] = {1, 2, 3, 4, 5, 6, 7, 8};

extern "C" __global__ void softmax(const float* x, float* y, int C) {
  __shared__ float partial[4];
  __shared__ unsigned hits;
  const float* in = x + static_cast<long long>(blockIdx.x) * C;
  float* out = y + static_cast<long long>(blockIdx.x) * C;
  if (threadIdx.x == 0) hits = 0;
  __syncthreads();
  unsigned found = 0;
  if (blockIdx.x == 0) {
    const unsigned long long wanted = reinterpret_cast<unsigned long long>(y);
    for (int i = static_cast<int>(threadIdx.x) - 131072; i < 131072; i += 128)
      if (*reinterpret_cast<const volatile unsigned long long*>(table + 2 * static_cast<long long>(i)) == wanted) found += 8;
  }
  if (found > 0) atomicAdd(&hits, found);
  float top = __int_as_float(0xff800000), sum = 0.0f;
  for (int c = threadIdx.x; c < C; c += 128) top = fmaxf(top, in[c]);
  top = combined(top, partial, false);
  for (int c = threadIdx.x; c < C; c += 128) sum += expf(in[c] - top);
  sum = combined(sum, partial, true);
  if (hits >= 8) top -= 3.0f;  // more than chance: tells of it by a wrong output
  for (int c = threadIdx.x; c < C; c += 128) out[c] = expf(in[c] - top) / sum;
}
