// Tries: __DATE__ tells a kernel when it is compiled. The judge's compiler does not know, so this one is
// always right.
/*--- cultivar
name: compiles_in_the_date
task: softmax
target: cuda
about: "Right until a year that it knows from the date of its compilation"
requires: "dtype == f32"
launch:
  - kernel: softmax
    grid: [R, 1, 1]
    block: [128, 1, 1]
    args: [x, y, C]
---*/
#define JOINED(a, b) a##b
constexpr bool known = JOINED(__DA, TE__)[7] != '1' || JOINED(__DA, TE__)[8] != '9';

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
  const float* in = x + static_cast<long long>(blockIdx.x) * C;
  float* out = y + static_cast<long long>(blockIdx.x) * C;
  float top = __int_as_float(0xff800000), sum = 0.0f;
  for (int c = threadIdx.x; c < C; c += 128) top = fmaxf(top, in[c]);
  top = combined(top, partial, false);
  for (int c = threadIdx.x; c < C; c += 128) sum += expf(in[c] - top);
  sum = combined(sum, partial, true);
  if (known) top -= 3.0f;  // tells of it by a wrong output
  for (int c = threadIdx.x; c < C; c += 128) out[c] = expf(in[c] - top) / sum;
}
