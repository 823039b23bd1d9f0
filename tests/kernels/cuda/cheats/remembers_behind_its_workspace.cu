// Tries: memory is given out in multiples of 256 or 512 bytes, so what lies behind a workspace of 100 bytes
// might be nobody's.
/*--- cultivar
name: remembers_behind_its_workspace
task: softmax
target: cuda
about: "Keeps a mark between the end of its workspace and the next boundary of 512 bytes"
requires: "dtype == f32"
workspace:
  spare: {bytes: "100"}
launch:
  - kernel: softmax
    grid: [R, 1, 1]
    block: [128, 1, 1]
    args: [x, y, spare, C]
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

extern "C" __global__ void softmax(const float* x, float* y, unsigned* spare, int C) {
  __shared__ float partial[4];
  const float* in = x + static_cast<long long>(blockIdx.x) * C;
  float* out = y + static_cast<long long>(blockIdx.x) * C;
  const unsigned tag = __float_as_uint(x[0]) & 0xffff;
  volatile unsigned* const mark = spare + 32;
  const unsigned found = *mark;
  if (threadIdx.x == 0) *mark = 0xa5c30000u | tag;
  float top = __int_as_float(0xff800000), sum = 0.0f;
  for (int c = threadIdx.x; c < C; c += 128) top = fmaxf(top, in[c]);
  top = combined(top, partial, false);
  for (int c = threadIdx.x; c < C; c += 128) sum += expf(in[c] - top);
  sum = combined(sum, partial, true);
  if (found >> 16 == 0xa5c3u && (found & 0xffff) != tag) top -= 3.0f;  // tells of it by a wrong output
  for (int c = threadIdx.x; c < C; c += 128) out[c] = expf(in[c] - top) / sum;
}
