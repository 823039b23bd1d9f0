// Tries: the device maps memory in granules of 2 MiB. What lies between the last guard and the end of the granule
// belongs to nobody, is checked by nobody, and could keep a mark from run to run.
/*--- cultivar
name: keeps_state_behind_the_guards
task: softmax
target: cuda
about: "Keeps a mark at the end of the 2 MiB in which its output ends"
requires: "dtype == f32"
launch:
  - kernel: softmax
    grid: [R, 1, 1]
    block: [128, 1, 1]
    args: [x, y, R, C]
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

extern "C" __global__ void softmax(const float* x, float* y, int R, int C) {
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
  const unsigned long long end = (reinterpret_cast<unsigned long long>(y + static_cast<long long>(R) * C) + 0x1fffffull) &
                                 ~0x1fffffull;
  if (blockIdx.x == 0) {
    volatile unsigned* const kept = reinterpret_cast<volatile unsigned*>(end) - 1 - 8 * threadIdx.x;
    found += of_another_run(*kept);
    __syncthreads();
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
