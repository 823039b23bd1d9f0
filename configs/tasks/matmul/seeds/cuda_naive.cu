/*--- cultivar
name: matmul_tile_in_shared_memory
task: matmul
target: cuda
about: "16 x 16 threads for a square tile of C, each a few elements in registers; tiles of A and B in shared memory as f32; no tensor cores."
requires: "dtype != f64"
tunables:
  EACH: {values: [1, 2, 4, 8], default: 4}   # elements of C that a thread keeps, in each direction
  DEPTH: {values: [8, 16, 32], default: 16}  # of K, in shared memory at once
specialize: [dtype]
let:
  side: "16 * EACH"
launch:
  - kernel: matmul
    grid: ["ceil_div(N, side)", "ceil_div(M, side)", 1]
    block: [16, 16, 1]
    args: [a, b, c, M, N, K]
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
    matmul(const Element* a, const Element* b, Element* c, int M, int N, int K) {
  __shared__ float a_tile[DEPTH][kSide + 1];
  __shared__ float b_tile[DEPTH][kSide];
  const int top = blockIdx.y * kSide, left = blockIdx.x * kSide;
  const int thread = threadIdx.y * kThreads + threadIdx.x;

  float sums[EACH][EACH] = {};
  for (int k = 0; k < K; k += DEPTH) {
    for (int i = thread; i < kSide * DEPTH; i += kThreads * kThreads) {
      const int row = i / DEPTH, depth = i % DEPTH;
      const bool inside = top + row < M && k + depth < K;
      a_tile[depth][row] = inside ? widened(a[static_cast<long long>(top + row) * K + k + depth]) : 0.0f;
    }
    for (int i = thread; i < kSide * DEPTH; i += kThreads * kThreads) {
      const int depth = i / kSide, column = i % kSide;
      const bool inside = k + depth < K && left + column < N;
      b_tile[depth][column] =
          inside ? widened(b[static_cast<long long>(k + depth) * N + left + column]) : 0.0f;
    }
    __syncthreads();
#pragma unroll
    for (int depth = 0; depth < DEPTH; ++depth) {
      float of_a[EACH], of_b[EACH];
#pragma unroll
      for (int i = 0; i < EACH; ++i) {
        of_a[i] = a_tile[depth][i * kThreads + threadIdx.y];
        of_b[i] = b_tile[depth][i * kThreads + threadIdx.x];
      }
#pragma unroll
      for (int i = 0; i < EACH; ++i)
#pragma unroll
        for (int j = 0; j < EACH; ++j) sums[i][j] = fmaf(of_a[i], of_b[j], sums[i][j]);
    }
    __syncthreads();
  }

#pragma unroll
  for (int i = 0; i < EACH; ++i)
#pragma unroll
    for (int j = 0; j < EACH; ++j) {
      const int row = top + i * kThreads + threadIdx.y, column = left + j * kThreads + threadIdx.x;
      if (row < M && column < N) c[static_cast<long long>(row) * N + column] = narrowed(sums[i][j]);
    }
}
