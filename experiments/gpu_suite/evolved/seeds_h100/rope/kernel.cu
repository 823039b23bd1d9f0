/*--- cultivar
name: rope_vectors
task: rope
target: cuda
about: "A thread rotates 16 bytes of each half of a head in 32 registers, so that a multiprocessor holds 2048 threads; indices are 32-bit with constant divisors."
requires: "D % 16 == 0"
tunables:
  THREADS: {values: [64, 128, 256, 512], default: 128}
  RESIDENT: {values: [1024, 1536, 2048], default: 1536}  # threads of a multiprocessor that the registers must allow
  HELD_MIB: {values: [0, 24, 48, 1024], default: 48}     # MiB at the end of the results that leave L2 last; 1024: all
let:
  piece: "16 / element_bytes"
  PIECES: "E / piece"                          # of half a head
  Q_HEADS: "H"
  K_HEADS: "H_kv"
  work: "T * (H + H_kv) * PIECES"
specialize: [dtype, PIECES, Q_HEADS, K_HEADS]
launch:
  - kernel: rope
    grid: ["ceil_div(work, THREADS)", 1, 1]
    block: [THREADS, 1, 1]
    args: [q, k, positions, cos, sin, q_out, k_out, work]
---*/

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace {

enum : int {
  kPiece = 16 / sizeof(DTYPE),
  kHalf = PIECES * kPiece,
  kHeads = Q_HEADS + K_HEADS,
};
struct alignas(16) Piece {
  DTYPE value[kPiece];
};
struct alignas(16) Floats {
  float value[kPiece];
};

// A write that leaves L2 last: what still lies there when the kernel ends goes to memory later.
__device__ __forceinline__ void hold(DTYPE* to, const Piece& from) {
  const uint4 words = *reinterpret_cast<const uint4*>(&from);
  unsigned long long policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  asm volatile("st.global.L2::cache_hint.v4.u32 [%0], {%1, %2, %3, %4}, %5;"
               :
               : "l"(to), "r"(words.x), "r"(words.y), "r"(words.z), "r"(words.w), "l"(policy)
               : "memory");
}

}  // namespace

// All tensors together have at most 339.9 MB: 32 bits hold any index.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT / THREADS)
    rope(const DTYPE* __restrict__ q, const DTYPE* __restrict__ k, const long long* __restrict__ positions,
         const float* __restrict__ cos, const float* __restrict__ sin, DTYPE* __restrict__ q_out,
         DTYPE* __restrict__ k_out, int work) {
  const unsigned item = blockIdx.x * static_cast<unsigned>(THREADS) + threadIdx.x;
  if (item >= static_cast<unsigned>(work)) return;
  const unsigned rest = item / static_cast<unsigned>(PIECES), p = item - rest * static_cast<unsigned>(PIECES);
  const unsigned token = rest / static_cast<unsigned>(kHeads), head = rest - token * static_cast<unsigned>(kHeads);
  const unsigned position = static_cast<unsigned>(positions[token]);  // first: the rows of cos and sin wait for it
  const bool query = head < static_cast<unsigned>(Q_HEADS);
  const unsigned row = query ? token * Q_HEADS + head : token * K_HEADS + (head - Q_HEADS);
  const unsigned base = row * (2u * kHalf) + p * kPiece;  // the only thing that lives on to the stores

  const DTYPE* const in = (query ? q : k) + base;
  const Piece x = *reinterpret_cast<const Piece*>(in);
  const Piece y = *reinterpret_cast<const Piece*>(in + kHalf);
  const unsigned at = position * static_cast<unsigned>(kHalf) + p * kPiece;
  const Floats c = *reinterpret_cast<const Floats*>(cos + at);
  const Floats s = *reinterpret_cast<const Floats*>(sin + at);
  Piece a, b;
#pragma unroll
  for (int i = 0; i < kPiece; ++i) {
    const float u = static_cast<float>(x.value[i]), v = static_cast<float>(y.value[i]);
    a.value[i] = DTYPE(u * c.value[i] - v * s.value[i]);
    b.value[i] = DTYPE(v * c.value[i] + u * s.value[i]);
  }
  DTYPE* const out = (query ? q_out : k_out) + base;
#if HELD_MIB > 0
  // A thread writes 32 bytes, in the order of the tokens; negative if all results are held.
  if (static_cast<int>(item) >= work - HELD_MIB * 32768) {
    hold(out, a);
    hold(out + kHalf, b);
    return;
  }
#endif
  *reinterpret_cast<Piece*>(out) = a;
  *reinterpret_cast<Piece*>(out + kHalf) = b;
}
