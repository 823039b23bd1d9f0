/*--- cultivar
name: row_reduce_split
task: row_reduce
target: cuda
about: "16 bytes at a time with several loads in flight; where there are few rows, several blocks share one and a second kernel adds their sums."
tunables:
  THREADS: {values: [128, 256, 512, 1024], default: 512}
  AHEAD: {values: [2, 4, 8], default: 8}             # loads of 16 bytes in flight in a thread
  WAVES: {values: [4, 8, 16, 32], default: 32}       # blocks per multiprocessor that are worth a split
  POLICY: {values: [0, 1], default: 0}               # 1: the stream is evicted from L2 first
specialize: [dtype]
let:
  piece: "16 / element_bytes"
  least: "THREADS * AHEAD * piece"                   # columns that keep a block busy
  splits: "max(1, min(ceil_div(WAVES * num_sms, R), min(1024, floor_div(C, least))))"
  each: "splits == 1 ? C : round_up(ceil_div(C, splits), piece)"
workspace:
  parts: {bytes: "splits == 1 ? 0 : 4 * R * splits"}
launch:
  - kernel: row_reduce
    grid: [splits, R, 1]
    when: "R <= 65535"
    block: [THREADS, 1, 1]
    args: [x, y, parts, C, each, splits]
  - kernel: row_reduce
    grid: [R, 1, 1]
    when: "R > 65535"
    block: [THREADS, 1, 1]
    args: [x, y, parts, C, {value: C, type: i32}, {value: 0, type: i32}]
  - kernel: add_parts
    when: "splits > 1"
    grid: ["ceil_div(R, 8)", 1, 1]
    block: [256, 1, 1]
    args: [parts, y, R, splits]
---*/

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace {

enum : int { kPiece = 16 / sizeof(DTYPE) };
struct alignas(16) Piece {
  DTYPE value[kPiece];
};

__device__ float sum_of(const Piece& piece) {
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < kPiece; ++i) sum += static_cast<float>(piece.value[i]);
  return sum;
}

__device__ __forceinline__ unsigned long long stream_policy() {
  unsigned long long policy = 0;
#if POLICY
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
#endif
  return policy;
}

// Read once: no line in L1, and in L2 the first to go.
__device__ __forceinline__ Piece load_once(const Piece* from, unsigned long long policy) {
  uint4 v;
#if POLICY
  asm("ld.global.nc.L1::no_allocate.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
      : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
      : "l"(from), "l"(policy));
#else
  asm("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
      : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
      : "l"(from));
#endif
  return reinterpret_cast<const Piece&>(v);
}

}  // namespace

// splits: blocks of a row; 0: the grid's x counts rows, one block each.
extern "C" __global__ void __launch_bounds__(THREADS)
    row_reduce(const DTYPE* x, float* y, float* parts, int C, int each, int splits) {
  __shared__ float partial[THREADS / 32];
  const long long row = splits == 0 ? blockIdx.x : blockIdx.y;
  const int first = splits == 0 ? 0 : min(static_cast<int>(blockIdx.x) * each, C);
  const int count = min(each, C - first);
  const DTYPE* const in = x + row * C + first;
  const int pieces = C % kPiece == 0 ? count / kPiece : 0;
  float sums[AHEAD] = {};
  const unsigned long long policy = stream_policy();
  int p = threadIdx.x;
  for (; p + (AHEAD - 1) * THREADS < pieces; p += AHEAD * THREADS) {
    Piece loaded[AHEAD];
#pragma unroll
    for (int a = 0; a < AHEAD; ++a) loaded[a] = load_once(reinterpret_cast<const Piece*>(in) + p + a * THREADS, policy);
#pragma unroll
    for (int a = 0; a < AHEAD; ++a) sums[a] += sum_of(loaded[a]);
  }
#pragma unroll 4
  for (; p < pieces; p += THREADS) sums[0] += sum_of(load_once(reinterpret_cast<const Piece*>(in) + p, policy));
  for (int c = pieces * kPiece + threadIdx.x; c < count; c += THREADS) sums[0] += static_cast<float>(in[c]);
  float sum = 0.0f;
#pragma unroll
  for (int a = 0; a < AHEAD; ++a) sum += sums[a];
#pragma unroll
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
#pragma unroll
  for (int w = 1; w < THREADS / 32; ++w) sum += partial[w];
  if (splits <= 1)
    y[row] = sum;
  else
    parts[row * splits + blockIdx.x] = sum;
}

// A warp adds the parts of a row.
extern "C" __global__ void __launch_bounds__(256) add_parts(const float* parts, float* y, int R, int splits) {
  const int row = blockIdx.x * 8 + threadIdx.x / 32;
  if (row >= R) return;
  float sum = 0.0f;
  for (int s = threadIdx.x % 32; s < splits; s += 32) sum += parts[static_cast<long long>(row) * splits + s];
#pragma unroll
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  if (threadIdx.x % 32 == 0) y[row] = sum;
}
