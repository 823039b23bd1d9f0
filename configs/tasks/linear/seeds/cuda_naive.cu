/*--- cultivar
name: linear_tile_in_shared_memory
task: linear
target: cuda
about: "16 x 16 threads for a square tile of y, each a few elements in registers; tiles of x and w in shared memory as f32; no tensor cores."
tunables:
  EACH: {values: [1, 2, 4, 8], default: 4}   # elements of y that a thread keeps, in each direction
  DEPTH: {values: [8, 16, 32], default: 16}  # of K, in shared memory at once
specialize: [dtype]
let:
  side: "16 * EACH"
launch:
  - kernel: linear
    grid: ["ceil_div(N, side)", "ceil_div(M, side)", 1]
    block: [16, 16, 1]
    args: [x, w, bias, y, M, N, K, with_bias, gelu]
---*/

// The baseline: any shape is taken; what lies outside of a matrix counts as zero.

namespace {

// An enum, because NVRTC would make writable device globals of constants.
enum : int { kThreads = 16, kSide = kThreads * EACH };

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

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads* kThreads)
    linear(const Element* x, const Element* w, const Element* bias, Element* y, int M, int N, int K,
           int with_bias, int gelu) {
  __shared__ float x_tile[DEPTH][kSide + 1];
  __shared__ float w_tile[DEPTH][kSide + 1];
  const int top = blockIdx.y * kSide, left = blockIdx.x * kSide;
  const int thread = threadIdx.y * kThreads + threadIdx.x;

  float w_sums[EACH][EACH] = {};
  for (int k = 0; k < K; k += DEPTH) {
    for (int i = thread; i < kSide * DEPTH; i += kThreads * kThreads) {
      const int row = i / DEPTH, depth = i % DEPTH;
      x_tile[depth][row] = top + row < M && k + depth < K
                               ? widened(x[static_cast<long long>(top + row) * K + k + depth])
                               : 0.0f;
      w_tile[depth][row] = left + row < N && k + depth < K
                               ? widened(w[static_cast<long long>(left + row) * K + k + depth])
                               : 0.0f;
    }
    __syncthreads();
#pragma unroll
    for (int depth = 0; depth < DEPTH; ++depth) {
      float of_x[EACH], of_w[EACH];
#pragma unroll
      for (int i = 0; i < EACH; ++i) {
        of_x[i] = x_tile[depth][i * kThreads + threadIdx.y];
        of_w[i] = w_tile[depth][i * kThreads + threadIdx.x];
      }
#pragma unroll
      for (int i = 0; i < EACH; ++i)
#pragma unroll
        for (int j = 0; j < EACH; ++j) {
          w_sums[i][j] = fmaf(of_x[i], of_w[j], w_sums[i][j]);
        }
    }
    __syncthreads();
  }

#pragma unroll
  for (int i = 0; i < EACH; ++i)
#pragma unroll
    for (int j = 0; j < EACH; ++j) {
      const int row = top + i * kThreads + threadIdx.y, column = left + j * kThreads + threadIdx.x;
      if (row >= M || column >= N) continue;
      float v = w_sums[i][j];
      if (with_bias) v += widened(bias[column]);
      if (gelu) v = 0.5f * v * (1.0f + tanhf(0.797884561f * (v + 0.044715f * v * v * v)));
      y[static_cast<long long>(row) * N + column] = narrowed(v);
    }
}
