/*--- cultivar
name: rope_vectors
task: rope
target: cuda
about: "A thread rotates 16 bytes of each half of a head, and keeps its cosines and sines for several heads of a token."
requires: "D % 16 == 0"
tunables:
  THREADS: {values: [64, 128, 256, 512], default: 128}
  HEADS: {values: [1, 2, 4, 8], default: 2}  # of a thread, of one token, whose loads are in flight together
specialize: [dtype]
let:
  piece: "16 / element_bytes"
  pieces: "E / piece"                          # of half a head
  groups: "ceil_div(H, HEADS) + ceil_div(H_kv, HEADS)"
  work: "T * groups * pieces"
launch:
  - kernel: rope
    grid: ["ceil_div(work, THREADS)", 1, 1]
    block: [THREADS, 1, 1]
    args: [q, k, positions, cos, sin, q_out, k_out, H, H_kv, D, pieces, groups, {value: work, type: i64}]
---*/

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace {

enum : int { kPiece = 16 / sizeof(DTYPE) };
struct alignas(16) Piece {
  DTYPE value[kPiece];
};
struct alignas(16) Floats {
  float value[kPiece];
};

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS)
    rope(const DTYPE* q, const DTYPE* k, const long long* positions, const float* cos, const float* sin, DTYPE* q_out,
         DTYPE* k_out, int H, int H_kv, int D, int pieces, int groups, long long work) {
  const long long item = static_cast<long long>(blockIdx.x) * THREADS + threadIdx.x;
  if (item >= work) return;
  const int p = static_cast<int>(item % pieces);
  const long long rest = item / pieces;
  const int group = static_cast<int>(rest % groups);
  const long long token = rest / groups;
  const int half = D / 2, query_groups = (H + HEADS - 1) / HEADS;
  const bool query = group < query_groups;
  const int heads = query ? H : H_kv, first = (query ? group : group - query_groups) * HEADS;
  const long long base = (token * heads + first) * D + p * kPiece;
  const DTYPE* const in = (query ? q : k) + base;
  DTYPE* const out = (query ? q_out : k_out) + base;

  Piece x[HEADS], y[HEADS];
#pragma unroll
  for (int h = 0; h < HEADS; ++h)
    if (first + h < heads) {
      x[h] = *reinterpret_cast<const Piece*>(in + h * D);
      y[h] = *reinterpret_cast<const Piece*>(in + h * D + half);
    }
  const long long at = positions[token] * half + p * kPiece;
  const Floats c = *reinterpret_cast<const Floats*>(cos + at), s = *reinterpret_cast<const Floats*>(sin + at);
#pragma unroll
  for (int h = 0; h < HEADS; ++h)
    if (first + h < heads) {
      Piece a, b;
#pragma unroll
      for (int i = 0; i < kPiece; ++i) {
        const float u = static_cast<float>(x[h].value[i]), v = static_cast<float>(y[h].value[i]);
        a.value[i] = DTYPE(u * c.value[i] - v * s.value[i]);
        b.value[i] = DTYPE(v * c.value[i] + u * s.value[i]);
      }
      *reinterpret_cast<Piece*>(out + h * D) = a;
      *reinterpret_cast<Piece*>(out + h * D + half) = b;
    }
}
