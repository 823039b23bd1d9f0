/*--- cultivar
name: cross_entropy_cluster
task: cross_entropy
target: cuda
about: "A cluster of 1 to 8 blocks keeps a row in its shared memory: each logit is read once, in pieces of 16 bytes; maxima and sums travel through distributed shared memory. A row that does not fit is read twice."
tunables:
  THREADS: {values: [256, 512, 1024], default: 512}
  SLICE_KIB: {values: [16, 24, 32, 48, 64, 96, 128], default: 64}  # of a row, at most, in one block
  AHEAD: {values: [1, 2, 4, 8], default: 4}  # loads of 16 bytes in flight in a thread
specialize: [dtype]
let:
  row_bytes: "V * element_bytes"
  slice: "1024 * SLICE_KIB"
  blocks: "row_bytes <= slice ? 1 : row_bytes <= 2 * slice ? 2 : row_bytes <= 4 * slice ? 4 : 8"
  each: "round_up(ceil_div(V, blocks), 16)"     # elements of a row that a block computes
  kept: "each * element_bytes <= slice ? 1 : 0"
constraints: ["slice <= smem_max - 1024"]
launch:
  - kernel: cross_entropy
    grid: ["R * blocks", 1, 1]
    block: [THREADS, 1, 1]
    cluster: [blocks, 1, 1]
    shared: "kept ? each * element_bytes : 0"
    args: [logits, targets, loss, dlogits, V, ignore_index, each, kept]
---*/

// R * V elements are read and written once if a row fits into the shared memory of the cluster. Exponentials are made
// twice, since they cost less than memory: first for the sum, then for the result.

#include <cuda_bf16.h>

namespace {

struct alignas(16) Piece {
  DTYPE value[16 / sizeof(DTYPE)];
};
enum : int { kPiece = 16 / sizeof(DTYPE), kWarps = THREADS / 32 };

__device__ float exp_of(float x) {  // x <= 0
#if defined(DTYPE_F32)
  return expf(x);
#else  // 16 bits do not show the error of a scaled difference
  return exp2f(x * 1.44269504f);
#endif
}

__device__ void meet() {
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
__device__ unsigned cluster_size() {
  unsigned size;
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
  return size;
}
__device__ unsigned cluster_rank() {
  unsigned rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ float of_block(const float* own, unsigned rank) {
  unsigned there;
  float value;
  const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(own));
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(there) : "memory");
  return value;
}

// The value combined over all threads of the cluster. `partial`: kWarps floats; `own`: one, of this use alone, because
// other blocks read it.
template <bool kSum>
__device__ float combined(float value, float* partial, float* own, unsigned blocks) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, value, step);
    value = kSum ? value + other : fmaxf(value, other);
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  value = partial[0];
#pragma unroll
  for (int w = 1; w < kWarps; ++w) value = kSum ? value + partial[w] : fmaxf(value, partial[w]);
  if (blocks == 1) return value;
  if (threadIdx.x == 0) *own = value;
  meet();
  value = of_block(own, 0);
  for (unsigned rank = 1; rank < blocks; ++rank) {
    const float other = of_block(own, rank);
    value = kSum ? value + other : fmaxf(value, other);
  }
  return value;
}

// Calls use(first element, piece) for this thread's pieces of [0, whole), with several loads in flight.
template <class Use>
__device__ void for_each_piece(const DTYPE* in, int whole, const Use& use) {
  const int pieces = whole / kPiece;
  int p = threadIdx.x;
  for (; p + (AHEAD - 1) * THREADS < pieces; p += AHEAD * THREADS) {
    Piece loaded[AHEAD];
#pragma unroll
    for (int a = 0; a < AHEAD; ++a) loaded[a] = reinterpret_cast<const Piece*>(in)[p + a * THREADS];
#pragma unroll
    for (int a = 0; a < AHEAD; ++a) use((p + a * THREADS) * kPiece, loaded[a]);
  }
  for (; p < pieces; p += THREADS) use(p * kPiece, reinterpret_cast<const Piece*>(in)[p]);
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS)
    cross_entropy(const DTYPE* logits, const long long* targets, float* loss, DTYPE* dlogits, int V, int ignore_index,
                  int each, int kept) {
  extern __shared__ __align__(16) unsigned char memory[];
  __shared__ float partial[kWarps], top_of_block, sum_of_block;
  DTYPE* const slice = reinterpret_cast<DTYPE*>(memory);
  const unsigned blocks = cluster_size(), rank = cluster_rank();
  const long long row = blockIdx.x / blocks;
  const int first = min(static_cast<int>(rank) * each, V), count = min(each, V - first);
  const DTYPE* const in = logits + row * V + first;
  DTYPE* const out = dlogits + row * V + first;
  const long long target = targets[row];
  const bool aligned = V % kPiece == 0;
  const int whole = aligned ? count : 0;  // elements in pieces of 16 bytes; the rest goes one by one

  if (target == ignore_index) {  // for all blocks of the cluster
    Piece nothing;
#pragma unroll
    for (int i = 0; i < kPiece; ++i) nothing.value[i] = DTYPE(0.0f);
    for (int p = threadIdx.x; p < whole / kPiece; p += THREADS) reinterpret_cast<Piece*>(out)[p] = nothing;
    for (int v = whole + threadIdx.x; v < count; v += THREADS) out[v] = DTYPE(0.0f);
    if (rank == 0 && threadIdx.x == 0) loss[row] = 0.0f;
    return;
  }

  float top = __int_as_float(0xff800000);  // -inf
  for_each_piece(in, whole, [&](int v, const Piece& piece) {
#pragma unroll
    for (int i = 0; i < kPiece; ++i) top = fmaxf(top, static_cast<float>(piece.value[i]));
    if (kept) *reinterpret_cast<Piece*>(slice + v) = piece;
  });
  for (int v = whole + threadIdx.x; v < count; v += THREADS) {
    const DTYPE logit = in[v];
    top = fmaxf(top, static_cast<float>(logit));
    if (kept) slice[v] = logit;
  }
  top = combined<false>(top, partial, &top_of_block, blocks);

  // Each thread reads back only what it wrote.
  const DTYPE* const from = kept ? slice : in;
  float sum = 0.0f;
  for_each_piece(from, whole, [&](int, const Piece& piece) {
#pragma unroll
    for (int i = 0; i < kPiece; ++i) sum += exp_of(static_cast<float>(piece.value[i]) - top);
  });
  for (int v = whole + threadIdx.x; v < count; v += THREADS) sum += exp_of(static_cast<float>(from[v]) - top);
  sum = combined<true>(sum, partial, &sum_of_block, blocks);

  const float scale = 1.0f / sum;
  const int here = target >= first && target < first + count ? static_cast<int>(target - first) : -1;
  for_each_piece(from, whole, [&](int v, const Piece& piece) {
    Piece result;
#pragma unroll
    for (int i = 0; i < kPiece; ++i)
      result.value[i] =
          DTYPE(exp_of(static_cast<float>(piece.value[i]) - top) * scale - (v + i == here ? 1.0f : 0.0f));
    *reinterpret_cast<Piece*>(out + v) = result;
  });
  for (int v = whole + threadIdx.x; v < count; v += THREADS)
    out[v] = DTYPE(exp_of(static_cast<float>(from[v]) - top) * scale - (v == here ? 1.0f : 0.0f));
  if (here >= 0 && threadIdx.x == 0) loss[row] = logf(sum) + (top - static_cast<float>(in[here]));
  if (blocks > 1) meet();  // no block ends while another reads its sum
}
