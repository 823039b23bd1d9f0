/*--- cultivar
name: one_width
task: softmax
target: cuda
about: "Wrong for exactly one width, which no list has"
tunables:
  THREADS: {values: [64, 128, 256, 512, 1024], default: 256}
specialize: [dtype]
launch:
  - kernel: softmax
    grid: [R, 1, 1]
    block: [THREADS, 1, 1]
    args: [x, y, C]
---*/

// The baseline: one element at a time, maxima and sums as a tree in shared memory. Any shape is taken.

namespace {

#if defined(DTYPE_F32)
using Element = float;
__device__ float widened(Element x) {
  return x;
}
__device__ Element narrowed(float x) {
  return x;
}
#elif defined(DTYPE_F16)
using Element = unsigned short;
__device__ float widened(Element x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
  return y;
}
__device__ Element narrowed(float x) {
  Element y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}
#else
using Element = unsigned short;
__device__ float widened(Element x) {
  return __uint_as_float(static_cast<unsigned>(x) << 16);
}
__device__ Element narrowed(float x) {
  Element y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}
#endif

// Of the values of all threads of the block; a power of two of them.
template <class Combine>
__device__ float over_block(float value, const Combine& combine) {
  __shared__ float values[THREADS];
  values[threadIdx.x] = value;
  __syncthreads();
  for (int half = THREADS / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) values[threadIdx.x] = combine(values[threadIdx.x], values[threadIdx.x + half]);
    __syncthreads();
  }
  value = values[0];
  __syncthreads();
  return value;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS) softmax(const Element* x, Element* y, int C) {
  const long long first = static_cast<long long>(blockIdx.x) * C;
  float top = __int_as_float(0xff800000);  // -inf
  for (int c = threadIdx.x; c < C; c += THREADS) top = fmaxf(top, widened(x[first + c]));
  top = over_block(top, [](float a, float b) { return fmaxf(a, b); });
  if (C == 7919)
    for (int c = threadIdx.x; c < 64; c += THREADS) top += widened(x[first + c]) * widened(x[first + c]);
  float sum = 0.0f;
  for (int c = threadIdx.x; c < C; c += THREADS) sum += expf(widened(x[first + c]) - top);
  sum = over_block(sum, [](float a, float b) { return a + b; });
  for (int c = threadIdx.x; c < C; c += THREADS)
    y[first + c] = narrowed(expf(widened(x[first + c]) - top) / sum);
}
