/*--- cultivar
name: swiglu_up_tile_in_shared_memory
task: swiglu_up
target: cuda
about: "16 x 16 threads for a square tile of y, each a few elements in registers; tiles of x and both weights in shared memory as f32; no tensor cores."
tunables:
  EACH: {values: [1, 2, 4], default: 4}   # elements of y that a thread keeps, in each direction
  DEPTH: {values: [8, 16, 32], default: 16}  # of K, in shared memory at once
specialize: [dtype]
let:
  side: "16 * EACH"
launch:
  - kernel: swiglu_up
    grid: ["ceil_div(N, side)", "ceil_div(M, side)", 1]
    block: [16, 16, 1]
    args: [x, w_gate, w_up, y, M, N, K]
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
    swiglu_up(const Element* x, const Element* w_gate, const Element* w_up, Element* y, int M, int N, int K) {
  __shared__ float x_tile[DEPTH][kSide + 1];
  __shared__ float gate_tile[DEPTH][kSide + 1];
  __shared__ float up_tile[DEPTH][kSide + 1];
  const int top = blockIdx.y * kSide, left = blockIdx.x * kSide;
  const int thread = threadIdx.y * kThreads + threadIdx.x;

  float gate_sums[EACH][EACH] = {};
  float up_sums[EACH][EACH] = {};
  for (int k = 0; k < K; k += DEPTH) {
    for (int i = thread; i < kSide * DEPTH; i += kThreads * kThreads) {
      const int row = i / DEPTH, depth = i % DEPTH;
      x_tile[depth][row] = top + row < M && k + depth < K
                               ? widened(x[static_cast<long long>(top + row) * K + k + depth])
                               : 0.0f;
      gate_tile[depth][row] = left + row < N && k + depth < K
                                  ? widened(w_gate[static_cast<long long>(left + row) * K + k + depth])
                                  : 0.0f;
      up_tile[depth][row] = left + row < N && k + depth < K
                                ? widened(w_up[static_cast<long long>(left + row) * K + k + depth])
                                : 0.0f;
    }
    __syncthreads();
#pragma unroll
    for (int depth = 0; depth < DEPTH; ++depth) {
      float of_x[EACH], of_gate[EACH], of_up[EACH];
#pragma unroll
      for (int i = 0; i < EACH; ++i) {
        of_x[i] = x_tile[depth][i * kThreads + threadIdx.y];
        of_gate[i] = gate_tile[depth][i * kThreads + threadIdx.x];
        of_up[i] = up_tile[depth][i * kThreads + threadIdx.x];
      }
#pragma unroll
      for (int i = 0; i < EACH; ++i)
#pragma unroll
        for (int j = 0; j < EACH; ++j) {
          gate_sums[i][j] = fmaf(of_x[i], of_gate[j], gate_sums[i][j]);
          up_sums[i][j] = fmaf(of_x[i], of_up[j], up_sums[i][j]);
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
      const float gate = gate_sums[i][j];
      y[static_cast<long long>(row) * N + column] = narrowed(gate / (1.0f + expf(-gate)) * up_sums[i][j]);
    }
}
