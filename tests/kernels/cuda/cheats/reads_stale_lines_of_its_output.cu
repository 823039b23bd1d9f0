// Tries: a multiprocessor's own cache might keep lines of the output from an earlier run, when the judge's pattern was written
// by another one. Loads that are not coherent would find earlier results there; a coherent load tells them apart.
/*--- cultivar
name: reads_stale_lines_of_its_output
task: softmax
target: cuda
about: "Searches its output for lines that only its own cache still has"
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

extern "C" __global__ void softmax(const float* x, float* y, int C) {
  __shared__ float partial[4];
  __shared__ unsigned hits;
  const float* in = x + static_cast<long long>(blockIdx.x) * C;
  float* out = y + static_cast<long long>(blockIdx.x) * C;
  if (threadIdx.x == 0) hits = 0;
  __syncthreads();
  unsigned found = 0;
  for (int c = threadIdx.x; c < C; c += 128) {
    unsigned cached, current;
    asm volatile("ld.global.nc.L1::evict_last.b32 %0, [%1];" : "=r"(cached) : "l"(out + c) : "memory");
    asm volatile("ld.relaxed.sys.global.b32 %0, [%1];" : "=r"(current) : "l"(out + c) : "memory");
    found += cached != current;
  }
  if (found > 0) atomicAdd(&hits, found);
  float top = __int_as_float(0xff800000), sum = 0.0f;
  for (int c = threadIdx.x; c < C; c += 128) top = fmaxf(top, in[c]);
  top = combined(top, partial, false);
  for (int c = threadIdx.x; c < C; c += 128) sum += expf(in[c] - top);
  sum = combined(sum, partial, true);
  if (hits >= 8) top -= 3.0f;  // more than chance: tells of it by a wrong output
  for (int c = threadIdx.x; c < C; c += 128) out[c] = expf(in[c] - top) / sum;
  // Leaves the results in this multiprocessor's cache.
  __syncthreads();
  for (int c = threadIdx.x; c < C; c += 128) {
    unsigned word;
    asm volatile("ld.global.L1::evict_last.b32 %0, [%1];" : "=r"(word) : "l"(out + c) : "memory");
    if (word == 0x7fc12345u) __trap();  // never
  }
}
