// Attention of few queries whose keys are split over blocks, and in a block over its warps: WARPS, KEYS and STAGES are tunables;
// D, causal, dtype and strips are specialized. A row is a query of a head; the rows that read one key head are numbered query by
// query. Of the 16-byte chunks of a shared row, number c lies at c ^ (row % 8).
#pragma once

#include "approximate.cuh"
#include "fragments.cuh"
#include "sixteen_bits.cuh"

using Index = long long;

namespace {

// An enum, because NVRTC would make writable device globals of constants.
enum : int {
  kHead = D,
  kMasked = causal,
  kStrips = strips,
  kRows = 16 * kStrips,
  kMost = kHead == 256 ? 16 : 64 / kStrips,
  kKeys = KEYS < kMost ? KEYS : kMost,
  kThreads = 32 * WARPS,
  kChunks = kHead / 8,
  kRowBytes = kHead * 2,
  kTile = kKeys * kRowBytes,
  kCombiners = 256
};

__device__ __forceinline__ float minus_infinity() {
  return __int_as_float(0xff800000);
}
__device__ __forceinline__ u32 chunk_at(u32 tile, int row, int chunk) {
  return tile + row * kRowBytes + ((chunk ^ (row % 8)) * 16);
}

__device__ __forceinline__ void copy_chunk(u32 to, const uint4* from, bool there) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(there ? 16 : 0)
               : "memory");
}

// Keys that a query sees.
__device__ __forceinline__ int seen_by(int query, int S_q, int S_kv) {
  return kMasked ? max(0, min(S_kv, query + S_kv - S_q + 1)) : S_kv;
}

// Weights are relative to that of the greatest logit so far: a product, rounded, and what a large one's rounding left out.
struct Base {
  float product, rest;
  __device__ __forceinline__ Base(float top, float scale)
      : product(top == minus_infinity() ? 0.0f : __fmul_rn(top, scale)),
        rest(fabsf(product) > 4096.0f ? fmaf(top, scale, -product) : 0.0f) {}
  __device__ __forceinline__ float weight(float x, float scale) const {
    return exp2_fast(fmaf(x, scale, -product) - rest);
  }
  // Of weights relative to `before`; exactly 1 if the maximum is the same.
  __device__ __forceinline__ float shrink(float before, float top, float scale) const {
    return exp2_fast(fabsf(product) > 4096.0f ? __fmul_rn(before - top, scale) : __fmul_rn(before, scale) - product);
  }
};

// 16 rows of a warp. Of 8 columns a thread has two in each of two rows (8 apart): 4 numbers.
struct Strip {
  float o[kHead / 2] = {};
  float top[2] = {minus_infinity(), minus_infinity()}, sum[2] = {};
  int visible[2];

  // Logits to weights; what came before is rescaled where a maximum rose. A row that has seen no key yet gets 0.
  __device__ __forceinline__ void soften(float (&s)[kKeys / 2], bool masked, int first_key, float scale) {
    if (masked) {
#pragma unroll
      for (int j = 0; j < kKeys / 2; ++j)
        if (first_key + j / 4 * 8 + j % 2 >= visible[j / 2 % 2]) s[j] = minus_infinity();
    }
    float shrink[2];
    bool rose = false;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float high = top[r];
#pragma unroll
      for (int j = 0; j < kKeys / 8; ++j) high = fmaxf(high, fmaxf(s[4 * j + 2 * r], s[4 * j + 2 * r + 1]));
      high = fmaxf(high, __shfl_xor_sync(0xffffffffu, high, 1));
      high = fmaxf(high, __shfl_xor_sync(0xffffffffu, high, 2));
      shrink[r] = Base(high, scale).shrink(top[r], high, scale);
      rose = rose || high != top[r];
      top[r] = high;
    }
    if (__any_sync(0xffffffffu, rose)) {
#pragma unroll
      for (int i = 0; i < kHead / 2; ++i) o[i] *= shrink[i / 2 % 2];
      sum[0] *= shrink[0];
      sum[1] *= shrink[1];
    }
    const Base base[2] = {{top[0], scale}, {top[1], scale}};
#pragma unroll
    for (int j = 0; j < kKeys / 2; ++j) {
      s[j] = base[j / 2 % 2].weight(s[j], scale);
      sum[j / 2 % 2] += s[j];
    }
  }
};

// The log-sum-exp of a row whose weights 2^(logit * scale2 - high) have the sum `total`: high * scale / scale2 + ln(total), by pairs
// of floats, rounded once.
__device__ __forceinline__ float natural(float high, float total, float scale) {
  const float scale2 = scale * 1.44269504f;
  const float unit = scale / scale2, unit_rest = fmaf(-unit, scale2, scale) / scale2;
  // total = m * 2^e, m between sqrt(1/2) and sqrt(2).
  const int e = (__float_as_int(total) - 0x3f3504f3) >> 23;
  const float m = total * __int_as_float((127 - e) << 23);
  const float x = __fmul_rn(high, unit), y = __fmul_rn(static_cast<float>(e), 0.693145752f);  // the latter exact
  const float sum = __fadd_rn(x, y), back = __fadd_rn(sum, -x);
  const float sum_rest = __fadd_rn(__fadd_rn(x, -__fadd_rn(sum, -back)), __fadd_rn(y, -back));
  const float rests = fmaf(high, unit_rest, fmaf(static_cast<float>(e), 1.42860677e-6f, fmaf(high, unit, -x)));
  return sum + (logf(m) + (sum_rest + rests));
}

// One row of one head: its sums of all splits, whose maxima differ. keys_of(b) is the number of keys of sequence b.
template <class KeysOf>
__device__ __forceinline__ void combine_row(const float4* parts, const float2* stats, uint2* o, float* lse, int H, int group,
                                            int S_q, int splits, float scale, const KeysOf& keys_of) {
  enum : int { kWide = kHead / 4, kTeams = kCombiners / kWide };  // a team has a row's elements, four in a thread
  extern __shared__ float4 combined[];                            // [kTeams, kWide], then a weight for each split
  float* const weights = reinterpret_cast<float*>(combined + kCombiners);
  __shared__ float partial[2][kCombiners / 32];
  const int h = blockIdx.x % H, query = blockIdx.x / H % S_q, b = blockIdx.x / H / S_q;
  const int rows = group * S_q, row = query * group + h % group;
  const Index head = static_cast<Index>(b) * (H / group) + h / group;
  const auto at = [&](int split) { return (head * splits + split) * rows + row; };

  float high = minus_infinity();
  for (int s = threadIdx.x; s < splits; s += kCombiners) high = fmaxf(high, weights[s] = stats[at(s)].x);
#pragma unroll
  for (int bit = 16; bit > 0; bit /= 2) high = fmaxf(high, __shfl_xor_sync(0xffffffffu, high, bit));
  if (threadIdx.x % 32 == 0) partial[0][threadIdx.x / 32] = high;
  __syncthreads();
  for (int w = 0; w < kCombiners / 32; ++w) high = fmaxf(high, partial[0][w]);
  const float base = high == minus_infinity() ? 0.0f : high;
  float total = 0.0f;
  for (int s = threadIdx.x; s < splits; s += kCombiners) {
    weights[s] = exp2_fast(weights[s] - base);
    total = fmaf(stats[at(s)].y, weights[s], total);
  }
#pragma unroll
  for (int bit = 16; bit > 0; bit /= 2) total += __shfl_xor_sync(0xffffffffu, total, bit);
  if (threadIdx.x % 32 == 0) partial[1][threadIdx.x / 32] = total;
  __syncthreads();
  total = 0.0f;
  for (int w = 0; w < kCombiners / 32; ++w) total += partial[1][w];

  const int wide = threadIdx.x % kWide, team = threadIdx.x / kWide;
  float4 x = {};
#pragma unroll 4
  for (int s = team; s < splits; s += kTeams) {
    const float weight = weights[s];
    const float4 part = parts[at(s) * kWide + wide];
    x.x = fmaf(part.x, weight, x.x), x.y = fmaf(part.y, weight, x.y);
    x.z = fmaf(part.z, weight, x.z), x.w = fmaf(part.w, weight, x.w);
  }
  combined[threadIdx.x] = x;
  __syncthreads();
  if (team > 0) return;
  for (int t = 1; t < kTeams; ++t) {
    const float4 other = combined[t * kWide + wide];
    x.x += other.x, x.y += other.y, x.z += other.z, x.w += other.w;
  }
  const bool nothing = seen_by(query, S_q, keys_of(b)) == 0;
  const float factor = nothing ? 0.0f : 1.0f / total;
  o[static_cast<Index>(blockIdx.x) * kWide + wide] =
      make_uint2(pack(x.x * factor, x.y * factor), pack(x.z * factor, x.w * factor));
  if (wide == 0)
    lse[(static_cast<Index>(b) * H + h) * S_q + query] =
        nothing ? minus_infinity() : natural(high, total, scale);
}

}  // namespace
