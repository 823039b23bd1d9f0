/*--- cultivar
name: attention_warp_per_query
task: attention_forward
target: cuda
about: "A warp for a few queries: its lanes share out the head and sum each key's product across; no tiles."
requires: "D % 32 == 0 && D <= 256 && scale > 0"
tunables:
  WARPS: {values: [2, 4, 8, 16], default: 8}  # of a block; neighbours, which meet the same keys in the cache
  QUERIES: {values: [1, 2, 4], default: 4}    # of a warp
  KEYS: {values: [1, 2, 4, 8], default: 4}    # read before the softmax moves on
constraints:
  - "QUERIES * KEYS <= 16"
  - "(2 * QUERIES + KEYS) * D / 32 + 2 * QUERIES * KEYS + 48 <= min(255, registers_max / (32 * WARPS))"
specialize: [D, causal, dtype, windowed, capped]
let:
  windowed: "window > 0"
  span: "min(window, S_q + S_kv)"  # a wider window hides nothing
  capped: "softcap > 0"
  groups: "ceil_div(S_q, QUERIES * WARPS)"
launch:
  - kernel: attention_forward
    grid: [B * H * groups, 1, 1]
    block: [32, WARPS, 1]
    args: [q, k, v, o, lse, H, H_kv, S_q, S_kv, groups, span, scale, softcap]
---*/

namespace {

// An enum, because NVRTC would make writable device globals of constants.
enum : int {
  kHead = D,
  kMasked = causal,
  kWindow = windowed,
  kCapped = capped,
  kPart = kHead / 32  // elements of a lane
};

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

enum : int {
  kBytes = kPart * sizeof(Element),
  kPower = kBytes & -kBytes
};  // the largest power of two that divides it
struct alignas(kPower < 16 ? kPower : 16) Part {
  Element x[kPart];
};

__device__ float minus_infinity() {
  return __int_as_float(0xff800000);
}

}  // namespace

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    attention_forward(const Element* q, const Element* k, const Element* v, Element* o, float* lse, int H,
                      int H_kv, int S_q, int S_kv, int groups, int window, float scale, float softcap) {
  const int bh = blockIdx.x / groups, b = bh / H, h = bh % H, lane = threadIdx.x;
  // The last queries see most keys under the mask, so they begin first.
  const int first = ((groups - 1 - static_cast<int>(blockIdx.x % groups)) * WARPS + threadIdx.y) * QUERIES;
  const long long q_stride = static_cast<long long>(H) * kHead,
                  kv_stride = static_cast<long long>(H_kv) * kHead;
  const long long q_at = (static_cast<long long>(b) * S_q * H + h) * kHead + lane * kPart;
  const long long kv_at = (static_cast<long long>(b) * S_kv * H_kv + h / (H / H_kv)) * kHead + lane * kPart;
  const float scale2 = scale * 1.44269504f, cap = softcap * 1.44269504f;

  float query[QUERIES][kPart], output[QUERIES][kPart] = {}, top[QUERIES], sum[QUERIES];
  int from[QUERIES], to[QUERIES], begin = S_kv, end = 0;  // the keys that a query sees
#pragma unroll
  for (int i = 0; i < QUERIES; ++i) {
    const int row = first + i;
    const Part part = *reinterpret_cast<const Part*>(q + q_at + min(row, S_q - 1) * q_stride);
    for (int d = 0; d < kPart; ++d) query[i][d] = widened(part.x[d]);
    top[i] = minus_infinity();
    sum[i] = 0.0f;
    const int own = row + S_kv - S_q;
    from[i] = kWindow ? max(0, own - window + 1) : 0;
    const bool cut = kWindow && !kMasked && window < S_kv - own;
    to[i] = row >= S_q ? 0 : min(S_kv, kMasked ? own + 1 : cut ? own + window : S_kv);
    begin = min(begin, from[i]);
    end = max(end, to[i]);
  }

  for (int key = kWindow ? begin : 0; key < end; key += KEYS) {
    float logits[QUERIES][KEYS], value[KEYS][kPart];
#pragma unroll
    for (int j = 0; j < KEYS; ++j) {
      const long long at = kv_at + min(key + j, S_kv - 1) * kv_stride;
      const Part keys = *reinterpret_cast<const Part*>(k + at),
                 values = *reinterpret_cast<const Part*>(v + at);
#pragma unroll
      for (int i = 0; i < QUERIES; ++i) {
        float dot = 0.0f;
        for (int d = 0; d < kPart; ++d) dot = fmaf(query[i][d], widened(keys.x[d]), dot);
        logits[i][j] = dot;
      }
      for (int d = 0; d < kPart; ++d) value[j][d] = widened(values.x[d]);
    }
#pragma unroll
    for (int bit = 16; bit > 0; bit /= 2)
#pragma unroll
      for (int i = 0; i < QUERIES; ++i)
#pragma unroll
        for (int j = 0; j < KEYS; ++j) logits[i][j] += __shfl_xor_sync(0xffffffffu, logits[i][j], bit);
#pragma unroll
    for (int i = 0; i < QUERIES; ++i) {
      float high = top[i];
#pragma unroll
      for (int j = 0; j < KEYS; ++j) {
        float logit = logits[i][j] * scale2;
        if (kCapped) logit = cap * tanhf(logit / cap);
        logits[i][j] = key + j < to[i] && (!kWindow || key + j >= from[i]) ? logit : minus_infinity();
        high = fmaxf(high, logits[i][j]);
      }
      const float base = high == minus_infinity() ? 0.0f : high;  // a query that has seen nothing yet
      const float shrink = exp2f(top[i] - base);
      top[i] = high;
      float part = 0.0f;
      for (int d = 0; d < kPart; ++d) output[i][d] *= shrink;
#pragma unroll
      for (int j = 0; j < KEYS; ++j) {
        const float weight = exp2f(logits[i][j] - base);
        part += weight;
        for (int d = 0; d < kPart; ++d) output[i][d] = fmaf(weight, value[j][d], output[i][d]);
      }
      sum[i] = fmaf(sum[i], shrink, part);
    }
  }

#pragma unroll
  for (int i = 0; i < QUERIES; ++i) {
    const int row = first + i;
    if (row >= S_q) break;
    const bool nothing = to[i] <= from[i];
    const float factor = nothing ? 0.0f : 1.0f / sum[i];
    Part part;
    for (int d = 0; d < kPart; ++d) part.x[d] = narrowed(output[i][d] * factor);
    *reinterpret_cast<Part*>(o + q_at + row * q_stride) = part;
    if (lane == 0)
      lse[static_cast<long long>(bh) * S_q + row] =
          nothing ? minus_infinity() : (top[i] + log2f(sum[i])) * 0.693147181f;
  }
}
