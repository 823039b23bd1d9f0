/*--- cultivar
name: group_norm_silu_block_per_group
task: group_norm_silu
target: cuda
about: "One block for each group: mean, squares of the deviations, result; one element at a time, the group is read three times."
tunables:
  THREADS: {values: [64, 128, 256, 512, 1024], default: 512}
specialize: [dtype]
launch:
  - kernel: group_norm_silu
    grid: ["N * G", 1, 1]
    block: [THREADS, 1, 1]
    args: [x, weight, bias, y, G, D, S, silu, eps]
---*/

// The baseline: one element at a time, sums as a tree in shared memory. Any shape is taken.

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
__device__ float sum_over_block(float value) {
  __shared__ float values[THREADS];
  values[threadIdx.x] = value;
  __syncthreads();
  for (int half = THREADS / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) values[threadIdx.x] += values[threadIdx.x + half];
    __syncthreads();
  }
  value = values[0];
  __syncthreads();
  return value;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS)
    group_norm_silu(const Element* x, const Element* weight, const Element* bias, Element* y, int G, int D,
                    int S, int silu, float eps) {
  const int count = D * S;
  const long long first = static_cast<long long>(blockIdx.x) * count;
  const int channel = static_cast<int>(blockIdx.x) % G * D;
  float sum = 0.0f, squares = 0.0f;
  for (int i = threadIdx.x; i < count; i += THREADS) sum += widened(x[first + i]);
  const float mean = sum_over_block(sum) / count;
  for (int i = threadIdx.x; i < count; i += THREADS) {
    const float deviation = widened(x[first + i]) - mean;
    squares += deviation * deviation;
  }
  const float factor = rsqrtf(sum_over_block(squares) / count + eps);
  for (int i = threadIdx.x; i < count; i += THREADS) {
    const int c = channel + i / S;
    const float v = (widened(x[first + i]) - mean) * factor * widened(weight[c]) + widened(bias[c]);
    y[first + i] = narrowed(silu ? v / (1.0f + expf(-v)) : v);
  }
}
