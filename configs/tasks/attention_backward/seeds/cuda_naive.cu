/*--- cultivar
name: attention_backward_warp_per_row
task: attention_backward
target: cuda
about: "A warp for a query, then a warp for a key: its lanes share out the head and sum each product across; no tiles."
requires: "D % 32 == 0 && D <= 256"
tunables:
  WARPS: {values: [2, 4, 8, 16], default: 8}  # of a block; neighbours, which meet the same rows in the cache
  AHEAD: {values: [1, 2, 4], default: 2}      # keys or queries whose products are summed across lanes together
specialize: [D, causal, dtype]
launch:
  - kernel: gradients_of_queries
    grid: ["B * H * ceil_div(S_q, WARPS)", 1, 1]
    block: [32, WARPS, 1]
    args: [q, k, v, o, lse, grad_o, dq, H, H_kv, S_q, S_kv, scale]
  - kernel: gradients_of_keys
    grid: ["B * H_kv * ceil_div(S_kv, WARPS)", 1, 1]
    block: [32, WARPS, 1]
    args: [q, k, v, o, lse, grad_o, dk, dv, H, H_kv, S_q, S_kv, scale]
---*/

namespace {

// An enum, because NVRTC would make writable device globals of constants.
enum : int { kHead = D, kMasked = causal, kPart = kHead / 32 };  // kPart: elements of a lane

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

// A lane's part of a row, in f32.
struct Lane {
  float x[kPart];
  __device__ void load(const Element* row) {
    const Part part = *reinterpret_cast<const Part*>(row + threadIdx.x * kPart);
    for (int d = 0; d < kPart; ++d) x[d] = widened(part.x[d]);
  }
  __device__ void store(Element* row, float factor) const {
    Part part;
    for (int d = 0; d < kPart; ++d) part.x[d] = narrowed(x[d] * factor);
    *reinterpret_cast<Part*>(row + threadIdx.x * kPart) = part;
  }
  __device__ void add(float factor, const Lane& other) {
    for (int d = 0; d < kPart; ++d) x[d] = fmaf(factor, other.x[d], x[d]);
  }
  __device__ float dot(const Lane& other) const {  // this lane's part of it
    float sum = 0.0f;
    for (int d = 0; d < kPart; ++d) sum = fmaf(x[d], other.x[d], sum);
    return sum;
  }
};

template <int count>
__device__ void sum_across(float (&x)[count]) {
#pragma unroll
  for (int bit = 16; bit > 0; bit /= 2)
#pragma unroll
    for (int i = 0; i < count; ++i) x[i] += __shfl_xor_sync(0xffffffffu, x[i], bit);
}

}  // namespace

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    gradients_of_queries(const Element* q, const Element* k, const Element* v, const Element* o, const float* lse,
                         const Element* grad, Element* dq, int H, int H_kv, int S_q, int S_kv, float scale) {
  const int groups = (S_q + WARPS - 1) / WARPS, bh = blockIdx.x / groups, b = bh / H, h = bh % H;
  const int i = static_cast<int>(blockIdx.x % groups) * WARPS + threadIdx.y;
  if (i >= S_q) return;
  const long long at = ((static_cast<long long>(b) * S_q + i) * H + h) * kHead;
  const long long stride = static_cast<long long>(H_kv) * kHead,
                  first = (static_cast<long long>(b) * S_kv * H_kv + h / (H / H_kv)) * kHead;
  const int keys = kMasked ? max(0, min(S_kv, i + S_kv - S_q + 1)) : S_kv;
  Lane query, gradient, output, sum = {};
  query.load(q + at);
  gradient.load(grad + at);
  output.load(o + at);
  float delta[1] = {gradient.dot(output)};
  sum_across(delta);
  const float base = keys > 0 ? lse[static_cast<long long>(bh) * S_q + i] : 0.0f;
  for (int j = 0; j < keys; j += AHEAD) {
    Lane key[AHEAD];
    float dots[2 * AHEAD];
#pragma unroll
    for (int n = 0; n < AHEAD; ++n) {
      const long long from = first + min(j + n, keys - 1) * stride;
      Lane value;
      value.load(v + from);
      key[n].load(k + from);
      dots[2 * n] = query.dot(key[n]);
      dots[2 * n + 1] = gradient.dot(value);
    }
    sum_across(dots);
#pragma unroll
    for (int n = 0; n < AHEAD; ++n)
      if (j + n < keys) sum.add(expf(dots[2 * n] * scale - base) * (dots[2 * n + 1] - delta[0]), key[n]);
  }
  sum.store(dq + at, scale);
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    gradients_of_keys(const Element* q, const Element* k, const Element* v, const Element* o, const float* lse,
                      const Element* grad, Element* dk, Element* dv, int H, int H_kv, int S_q, int S_kv, float scale) {
  const int groups = (S_kv + WARPS - 1) / WARPS, bh = blockIdx.x / groups, b = bh / H_kv, hk = bh % H_kv;
  const int j = static_cast<int>(blockIdx.x % groups) * WARPS + threadIdx.y;
  if (j >= S_kv) return;
  const long long at = ((static_cast<long long>(b) * S_kv + j) * H_kv + hk) * kHead;
  const int group = H / H_kv, begin = kMasked ? max(0, j - S_kv + S_q) : 0;
  Lane key, value, key_sum = {}, value_sum = {};
  key.load(k + at);
  value.load(v + at);
  for (int h = hk * group; h < (hk + 1) * group; ++h) {
    const float* const bases = lse + (static_cast<long long>(b) * H + h) * S_q;
    for (int i = begin; i < S_q; i += AHEAD) {
      Lane query[AHEAD], gradient[AHEAD];
      float dots[3 * AHEAD];
#pragma unroll
      for (int n = 0; n < AHEAD; ++n) {
        const long long from = ((static_cast<long long>(b) * S_q + min(i + n, S_q - 1)) * H + h) * kHead;
        Lane output;
        query[n].load(q + from);
        gradient[n].load(grad + from);
        output.load(o + from);
        dots[3 * n] = query[n].dot(key);
        dots[3 * n + 1] = gradient[n].dot(value);
        dots[3 * n + 2] = gradient[n].dot(output);
      }
      sum_across(dots);
#pragma unroll
      for (int n = 0; n < AHEAD; ++n) {
        if (i + n >= S_q) continue;
        const float p = expf(dots[3 * n] * scale - bases[i + n]);
        value_sum.add(p, gradient[n]);
        key_sum.add(p * (dots[3 * n + 1] - dots[3 * n + 2]), query[n]);
      }
    }
  }
  key_sum.store(dk + at, scale);
  value_sum.store(dv + at, 1.0f);
}
