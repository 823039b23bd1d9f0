// Tries: other buffers of the process, such as copies of inputs or the buffer that flushes the cache, may lie a few
// granules of 2 MiB away from its output; nobody would look for a mark there.
/*--- cultivar
name: keeps_state_megabytes_away
task: softmax
target: cuda
about: "Keeps a mark 64 to 512 MiB beyond its output"
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
  // Runs have different inputs, so a mark with another tag is from an earlier run.
  const unsigned tag = __float_as_uint(x[0]) & 0xffff, mark = 0xa5c30000u | tag;
  const auto of_another_run = [&](unsigned word) { return word >> 16 == 0xa5c3u && (word & 0xffff) != tag; };
  unsigned found = 0;
  if (blockIdx.x == 0 && threadIdx.x < 64) {
    volatile unsigned* const kept = reinterpret_cast<volatile unsigned*>(
        reinterpret_cast<unsigned long long>(y) + (64ull << 20) * (threadIdx.x / 8 + 1) + 4 * threadIdx.x);
    found += of_another_run(*kept);
    *kept = mark;
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
