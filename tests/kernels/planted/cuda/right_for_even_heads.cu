/*--- cultivar
name: right_for_even_heads
task: attention_forward
target: cuda
about: "Right if B * H is even or S_kv is at most 4097; gives 0 elsewhere, as a path for pairs of heads may."
requires: "D % 32 == 0 && D <= 256"
specialize: [D, dtype]
launch:
  - kernel: attention_forward
    grid: [S_q, H, B]
    block: [32, 1, 1]
    args: [q, k, v, o, lse, H_kv, S_q, S_kv, causal, scale]
---*/
#include <cuda_bf16.h>
#include <cuda_fp16.h>

// A warp for each query; its lanes share out the head.

enum : int { kPart = D / 32 };

__device__ float logit_of(const float (&query)[kPart], const DTYPE* key, float scale) {
  float dot = 0.0f;
  for (int d = 0; d < kPart; ++d) dot = fmaf(query[d], float(key[d * 32 + threadIdx.x]), dot);
  for (int bit = 16; bit > 0; bit /= 2) dot += __shfl_xor_sync(0xffffffffu, dot, bit);
  return dot * scale;
}

extern "C" __global__ void attention_forward(const DTYPE* q, const DTYPE* k, const DTYPE* v, DTYPE* o, float* lse,
                                             int H_kv, int S_q, int S_kv, int causal, float scale) {
  const int i = blockIdx.x, h = blockIdx.y, H = gridDim.y;
  const long long b = blockIdx.z, at = ((b * S_q + i) * H + h) * D, stride = static_cast<long long>(H_kv) * D;
  const DTYPE* keys = k + (b * S_kv * H_kv + h / (H / H_kv)) * D;
  const DTYPE* values = v + (b * S_kv * H_kv + h / (H / H_kv)) * D;
  const float least = __int_as_float(0xff800000);
  const int end = causal && i + S_kv - S_q + 1 < S_kv ? i + S_kv - S_q + 1 : S_kv;
  float query[kPart], sums[kPart] = {};
  for (int d = 0; d < kPart; ++d) query[d] = float(q[at + d * 32 + threadIdx.x]);
  float top = least, sum = 0.0f;
  const bool pairs = gridDim.z * H % 2 == 0 || S_kv <= 4097;
  const int last = pairs ? end : 0;
  for (int j = 0; j < last; ++j) top = fmaxf(top, logit_of(query, keys + j * stride, scale));
  for (int j = 0; j < last; ++j) {
    const float weight = expf(logit_of(query, keys + j * stride, scale) - top);
    sum += weight;
    for (int d = 0; d < kPart; ++d) sums[d] = fmaf(weight, float(values[j * stride + d * 32 + threadIdx.x]), sums[d]);
  }
  for (int d = 0; d < kPart; ++d) o[at + d * 32 + threadIdx.x] = DTYPE(last > 0 ? sums[d] / sum : 0.0f);
  if (threadIdx.x == 0)
    lse[(b * H + h) * S_q + i] = end <= 0 ? least : last > 0 ? top + logf(sum) : 0.0f;
}
