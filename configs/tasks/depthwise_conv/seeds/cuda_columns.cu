/*--- cultivar
name: depthwise_conv_columns
task: depthwise_conv
target: cuda
about: "A lane has two channels, a warp a strip of columns: it goes down the image, reads each pixel once, and adds it to the sums of all output rows that it reaches, which are in registers, as the weights are."
requires: "C % 2 == 0 && ((KH == KW && (KH == 3 || KH == 5 || KH == 7)) || (KH == 1 && KW <= 4))"
tunables:
  WARPS: {values: [1, 2, 4, 8], default: 4}                   # of a block: strips beside each other
  STRIP: {values: [2, 3, 4, 5, 6, 7, 8, 10, 14], default: 7}  # columns of outputs of a warp
  ROWS: {values: [4, 7, 8, 14, 28, 56, 4096], default: 56}    # rows of outputs of a warp
  WEIGHTS: {values: [packed, floats], default: packed}        # in registers: as they are in memory, or widened
  STORES: {values: [plain, streaming], default: plain}
  RESIDENT: {values: [8, 12, 16], default: 8}                 # warps of a multiprocessor, for which registers must suffice
specialize: [dtype, KH, KW, COLUMNS]
headers: [approximate.cuh, activations.cuh]
let:
  COLUMNS: "min(STRIP, floor((element_bytes == 4 ? 34 : 49) / KH))"  # of a strip: the sums must fit in registers
  strips: "ceil_div(W, COLUMNS)"
  across: "ceil_div(strips, WARPS)"  # blocks
  segments: "ceil_div(H, ROWS)"
  rows: "ceil_div(H, segments)"
  groups: "ceil_div(C, 64)"
launch:
  - kernel: depthwise_conv
    grid: ["across * groups * segments * N", 1, 1]
    block: [WARPS * 32, 1, 1]
    args: [x, weight, bias, y, H, W, C, pad_top, pad_left, silu, strips, across, groups, segments, rows]
---*/

#include "activations.cuh"

namespace {

// What a warp reads of an input row, in pixels; weights of a channel; channels of a block.
enum : int { kRead = COLUMNS + KW - 1, kTaps = KH * KW, kChannels = 64 };

#if defined(DTYPE_F32)
using Element = float;
using Pair = float2;
__device__ __forceinline__ float2 widen(Pair from) {
  return from;
}
__device__ __forceinline__ Pair narrow(float2 from) {
  return from;
}
__device__ __forceinline__ Pair both(Element low, Element high) {
  return make_float2(low, high);
}
__device__ __forceinline__ Pair nothing() {
  return make_float2(0.0f, 0.0f);
}
#else
using Element = unsigned short;
using Pair = unsigned;
__device__ __forceinline__ Pair both(Element low, Element high) {
  return low | static_cast<unsigned>(high) << 16;
}
__device__ __forceinline__ Pair nothing() {
  return 0;
}
#if defined(DTYPE_F16)
__device__ __forceinline__ float2 widen(Pair from) {
  float2 to;
  asm("{ .reg .b16 low, high; mov.b32 {low, high}, %2; cvt.f32.f16 %0, low; cvt.f32.f16 %1, high; }"
      : "=f"(to.x), "=f"(to.y)
      : "r"(from));
  return to;
}
__device__ __forceinline__ Pair narrow(float2 from) {
  Pair to;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(to) : "f"(from.y), "f"(from.x));
  return to;
}
#else
__device__ __forceinline__ float2 widen(Pair from) {
  return make_float2(__uint_as_float(from << 16), __uint_as_float(from & 0xffff0000u));
}
__device__ __forceinline__ Pair narrow(float2 from) {
  Pair to;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(to) : "f"(from.y), "f"(from.x));
  return to;
}
#endif
#endif

#if WEIGHTS == WEIGHTS_packed
using Weight = Pair;
__device__ __forceinline__ Weight kept(Pair weight) {
  return weight;
}
__device__ __forceinline__ float2 used(Weight weight) {
#if !defined(DTYPE_F32)
  asm volatile(
      ""
      : "+r"(weight));  // otherwise all are widened before the loop, and take twice as many registers
#endif
  return widen(weight);
}
#else
using Weight = float2;
__device__ __forceinline__ Weight kept(Pair weight) {
  return widen(weight);
}
__device__ __forceinline__ float2 used(Weight weight) {
  return weight;
}
#endif

__device__ __forceinline__ void store(Pair* to, Pair value) {
  if (STORES == STORES_streaming)
    __stcs(to, value);
  else
    *to = value;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(WARPS * 32, RESIDENT / WARPS)
    depthwise_conv(const Element* x, const Element* weight, const Element* bias, Element* y, int H, int W,
                   int C, int pad_top, int pad_left, int silu, int strips, int across, int groups,
                   int segments, int rows) {
  __shared__ Element taps[kChannels * kTaps];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  int block = blockIdx.x;
  const int strip = block % across * WARPS + warp;
  block /= across;
  const int first_c = block % groups * kChannels;
  block /= groups;
  const int first = block % segments * rows, last = min(first + rows, H);  // of the output's rows
  const long long image = static_cast<long long>(block / segments) * H;    // in rows

  // The weights of these channels lie together. A lane's are an odd number of words from its neighbour's, without conflicts.
  const long long taps_before = static_cast<long long>(first_c) * kTaps;
  for (int t = threadIdx.x; t < min(kChannels, C - first_c) * kTaps; t += WARPS * 32)
    taps[t] = weight[taps_before + t];
  __syncthreads();
  const int c = first_c + 2 * lane, first_w = strip * COLUMNS;
  if (c >= C || strip >= strips) return;
  Weight weights[kTaps];
#pragma unroll
  for (int t = 0; t < kTaps; ++t)
    weights[t] = kept(both(taps[2 * lane * kTaps + t], taps[(2 * lane + 1) * kTaps + t]));
  const float2 of_bias = widen(both(bias[c], bias[c + 1]));

  unsigned inside = 0;  // bit q: column first_w - pad_left + q is one of the image
#pragma unroll
  for (int q = 0; q < kRead; ++q)
    if (first_w - pad_left + q >= 0 && first_w - pad_left + q < W) inside |= 1u << q;
  const long long pixel = C / 2;  // in pairs
  const Pair* const from =
      reinterpret_cast<const Pair*>(x) + (image * W + first_w - pad_left) * pixel + c / 2;
  Pair* const to = reinterpret_cast<Pair*>(y) + (image * W + first_w) * pixel + c / 2;

  Pair next[kRead];
  const auto read = [&](int row) {
    const Pair* at = from + row * pixel * W;
#pragma unroll
    for (int q = 0; q < kRead; ++q, at += pixel)
      next[q] = inside >> q & 1 && row >= 0 && row < H ? *at : nothing();
  };
  float2 sums[KH][COLUMNS] = {};  // of output rows, the oldest first
  read(first - pad_top);
#pragma unroll 1
  for (int row = first - pad_top; row < last + KH - 1 - pad_top; ++row) {
    float2 values[kRead];
#pragma unroll
    for (int q = 0; q < kRead; ++q) values[q] = widen(next[q]);
    read(row + 1);
    if (row >= 0 && row < H) {
#pragma unroll
      for (int i = 0; i < KH; ++i) {
        const int out = row + pad_top - i;
        if (out < first || out >= last) continue;
#pragma unroll
        for (int j = 0; j < KW; ++j) {
          const float2 tap = used(weights[i * KW + j]);
#pragma unroll
          for (int s = 0; s < COLUMNS; ++s) {
            float2& sum = sums[KH - 1 - i][s];
            sum.x = fmaf(values[s + j].x, tap.x, sum.x);
            sum.y = fmaf(values[s + j].y, tap.y, sum.y);
          }
        }
      }
    }
    const int out = row + pad_top - (KH - 1);
    if (out >= first) {
      Pair* at = to + out * pixel * W;
#pragma unroll
      for (int s = 0; s < COLUMNS; ++s, at += pixel) {
        if (first_w + s >= W) break;
        const float2 sum = make_float2(sums[0][s].x + of_bias.x, sums[0][s].y + of_bias.y);
        store(at, narrow(silu ? make_float2(silu_of(sum.x), silu_of(sum.y)) : sum));
      }
    }
#pragma unroll
    for (int i = 0; i + 1 < KH; ++i)
#pragma unroll
      for (int s = 0; s < COLUMNS; ++s) sums[i][s] = sums[i + 1][s];
#pragma unroll
    for (int s = 0; s < COLUMNS; ++s) sums[KH - 1][s] = make_float2(0.0f, 0.0f);
  }
}
