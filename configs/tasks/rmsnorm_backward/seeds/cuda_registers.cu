/*--- cultivar
name: rmsnorm_backward_registers
task: rmsnorm_backward
target: cuda
about: "Each block walks over rows, which it keeps in registers in pieces of 16 bytes, with the sums of dw of its columns; a second kernel adds the blocks' sums."
requires: "C <= 16384"
tunables:
  THREADS: {values: [256, 512, 1024], default: 512}
  BLOCKS: {values: [1, 2, 3, 4, 6, 8], default: 2}   # per multiprocessor, at most
constraints: ["pieces * piece <= 64", "BLOCKS * THREADS <= threads_max"]
specialize: [dtype, pieces]
let:
  piece: "16 / element_bytes"
  pieces: "ceil_div(C, THREADS * piece)"   # of a row, in one thread
  blocks: "min(R, BLOCKS * num_sms)"
workspace:
  parts: {bytes: "4 * blocks * C"}
launch:
  - kernel: gradients
    grid: [blocks, 1, 1]
    block: [THREADS, 1, 1]
    args: [dy, x, w, rstd, dx, parts, R, C]
  - kernel: add_parts
    grid: ["ceil_div(C, 32)", 1, 1]
    block: [32, 16, 1]
    args: [parts, dw, {value: blocks, type: i32}, C]
---*/

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace {

enum : int { kPiece = 16 / sizeof(DTYPE), kWarps = THREADS / 32 };
struct alignas(16) Piece {
  DTYPE value[kPiece];
};

// Piece number i of this thread, of a row of C elements; what lies beyond the row is 0.
__device__ Piece load(const DTYPE* row, int i, int C) {
  const int first = (i * THREADS + static_cast<int>(threadIdx.x)) * kPiece;
  if (C % kPiece == 0 && first < C) return *reinterpret_cast<const Piece*>(row + first);
  Piece piece;
#pragma unroll
  for (int j = 0; j < kPiece; ++j) piece.value[j] = first + j < C ? row[first + j] : DTYPE(0.0f);
  return piece;
}
__device__ void store(DTYPE* row, int i, int C, const Piece& piece) {
  const int first = (i * THREADS + static_cast<int>(threadIdx.x)) * kPiece;
  if (C % kPiece == 0) {
    if (first < C) *reinterpret_cast<Piece*>(row + first) = piece;
    return;
  }
#pragma unroll
  for (int j = 0; j < kPiece; ++j)
    if (first + j < C) row[first + j] = piece.value[j];
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS)
    gradients(const DTYPE* dy, const DTYPE* x, const DTYPE* w, const float* rstd, DTYPE* dx, float* parts, int R,
              int C) {
  __shared__ float partial[2][kWarps];  // of this row and of the one before
  float sums[pieces][kPiece] = {};
  int side = 0;
  for (long long row = blockIdx.x; row < R; row += gridDim.x, side ^= 1) {
    Piece g[pieces], n[pieces];
#pragma unroll
    for (int i = 0; i < pieces; ++i) {
      g[i] = load(dy + row * C, i, C);
      n[i] = load(x + row * C, i, C);
    }
    const float scale = rstd[row];
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < pieces; ++i) {
      const Piece weight = load(w, i, C);
#pragma unroll
      for (int j = 0; j < kPiece; ++j)
        sum += static_cast<float>(g[i].value[j]) * static_cast<float>(weight.value[j]) *
               (static_cast<float>(n[i].value[j]) * scale);
    }
#pragma unroll
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (threadIdx.x % 32 == 0) partial[side][threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kWarps; ++i) sum += partial[side][i];
    const float mean = sum / static_cast<float>(C);
#pragma unroll
    for (int i = 0; i < pieces; ++i) {
      const Piece weight = load(w, i, C);
      Piece result;
#pragma unroll
      for (int j = 0; j < kPiece; ++j) {
        const float gradient = static_cast<float>(g[i].value[j]), normed = static_cast<float>(n[i].value[j]) * scale;
        result.value[j] = DTYPE(scale * (gradient * static_cast<float>(weight.value[j]) - normed * mean));
        sums[i][j] += gradient * normed;
      }
      store(dx + row * C, i, C, result);
    }
  }
#pragma unroll
  for (int i = 0; i < pieces; ++i)
#pragma unroll
    for (int j = 0; j < kPiece; ++j) {
      const int c = (i * THREADS + static_cast<int>(threadIdx.x)) * kPiece + j;
      if (c < C) parts[static_cast<long long>(blockIdx.x) * C + c] = sums[i][j];
    }
}

// 32 columns of a block; each of 16 warps adds every 16th part.
extern "C" __global__ void __launch_bounds__(512) add_parts(const float* parts, DTYPE* dw, int blocks, int C) {
  __shared__ float partial[16][32];
  const int c = blockIdx.x * 32 + threadIdx.x;
  float sum = 0.0f;
  if (c < C)
    for (int b = threadIdx.y; b < blocks; b += 16) sum += parts[static_cast<long long>(b) * C + c];
  partial[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || c >= C) return;
#pragma unroll
  for (int i = 1; i < 16; ++i) sum += partial[i][threadIdx.x];
  dw[c] = DTYPE(sum);
}
