/*--- cultivar
name: looks_at_sixteen_columns
task: softmax
target: cuda
about: "Looks at 16 columns of a row and leaves the maximum out if they are small: a late outlier overflows."
specialize: [dtype]
launch:
  - kernel: softmax
    grid: [R, 1, 1]
    block: [256, 1, 1]
    args: [x, y, C]
---*/
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ float combined(float value, bool sum) {
  __shared__ float values[256];
  values[threadIdx.x] = value;
  __syncthreads();
  for (int half = 128; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      const float other = values[threadIdx.x + half];
      values[threadIdx.x] = sum ? values[threadIdx.x] + other : fmaxf(values[threadIdx.x], other);
    }
    __syncthreads();
  }
  value = values[0];
  __syncthreads();
  return value;
}

extern "C" __global__ void softmax(const DTYPE* x, DTYPE* y, int C) {
  const DTYPE* in = x + static_cast<long long>(blockIdx.x) * C;
  DTYPE* out = y + static_cast<long long>(blockIdx.x) * C;
  const int step = C < 16 ? 1 : C / 16;
  float most = 0.0f;
  if (threadIdx.x < 16 && threadIdx.x * step < C) most = fabsf(float(in[threadIdx.x * step]));
  float shift = 0.0f;
  if (combined(most, false) > 1.0f) {
    shift = __int_as_float(0xff800000);
    for (int c = threadIdx.x; c < C; c += 256) shift = fmaxf(shift, float(in[c]));
    shift = combined(shift, false);
  }
  float sum = 0.0f;
  for (int c = threadIdx.x; c < C; c += 256) sum += expf(float(in[c]) - shift);
  sum = combined(sum, true);
  for (int c = threadIdx.x; c < C; c += 256) out[c] = DTYPE(expf(float(in[c]) - shift) / sum);
}
