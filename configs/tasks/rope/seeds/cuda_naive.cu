/*--- cultivar
name: rope_thread_per_pair
task: rope
target: cuda
about: "One thread rotates one pair of elements; a block per token."
tunables:
  THREADS: {values: [64, 128, 256, 512], default: 256}
specialize: [dtype]
launch:
  - kernel: rope
    grid: [T, 1, 1]
    block: [THREADS, 1, 1]
    args: [q, k, positions, cos, sin, q_out, k_out, H, H_kv, D]
---*/

// The baseline: any shape is taken.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

extern "C" __global__ void __launch_bounds__(THREADS)
    rope(const DTYPE* q, const DTYPE* k, const long long* positions, const float* cos, const float* sin, DTYPE* q_out,
         DTYPE* k_out, int H, int H_kv, int D) {
  const int half = D / 2;
  const long long token = blockIdx.x, position = positions[token];
  for (int i = threadIdx.x; i < (H + H_kv) * half; i += THREADS) {
    const int head = i / half, e = i % half;
    const bool query = head < H;
    const long long at = query ? (token * H + head) * D + e : (token * H_kv + head - H) * D + e;
    const DTYPE* const in = query ? q : k;
    DTYPE* const out = query ? q_out : k_out;
    const float x = static_cast<float>(in[at]), y = static_cast<float>(in[at + half]);
    const float c = cos[position * half + e], s = sin[position * half + e];
    out[at] = DTYPE(x * c - y * s);
    out[at + half] = DTYPE(y * c + x * s);
  }
}
