// Rows of attention's gradients outside of the products: delta and lse before them, the rounding of sums behind them. D and
// dtype are specialized; kQueries is the number of queries in a block, kChunks that of 16-byte chunks in a row.
#pragma once

#include "gradient_products.cuh"

namespace {

__device__ __forceinline__ float2 widened_pair(u32 both) {
  return make_float2(widened(static_cast<Element>(both)), widened(static_cast<Element>(both >> 16)));
}

// 16 rows of the head, of which a thread has rows lane / 4 and 8 below it. Four threads share a row, 2 elements of
// every 8; they swap until each has 8 in a row. `to`: the first of the 16 rows.
__device__ __forceinline__ void store_rows(uint4* to, long long stride, int rows, const float (&x)[D / 2],
                                           float factor) {
  const int lane = threadIdx.x % 32, quarter = lane % 4;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = lane / 4 + 8 * r;
#pragma unroll
    for (int i = 0; i < D / 32; ++i) {
      u32 y[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int at = 16 * i + 4 * e + 2 * r;
        y[e] = pack(x[at] * factor, x[at + 1] * factor);
      }
      exchange(y[0], y[1], quarter & 1, 1);
      exchange(y[2], y[3], quarter & 1, 1);
      exchange(y[0], y[2], quarter & 2, 2);
      exchange(y[1], y[3], quarter & 2, 2);
      if (row < rows) to[row * stride + 4 * i + quarter] = make_uint4(y[0], y[1], y[2], y[3]);
    }
  }
}

// A warp: delta of queries of block `at` (of all heads) from `first` on, and their lse for powers of two, in the order in which
// the teams read them.
template <int passes>
__device__ __forceinline__ void prepare_rows(const uint4* o, const float* lse, const uint4* grad, float* stats, int H, int S_q,
                                             int m_blocks, int at, int first) {
  const int bh = at / m_blocks, b = bh / H, h = bh - b * H, block = at - bh * m_blocks;
  const int lane = threadIdx.x % 32, chunk = lane % kChunks;
  enum : int { kRows = 32 / kChunks };
  uint4 x[passes], y[passes];
#pragma unroll
  for (int pass = 0; pass < passes; ++pass) {
    const int i = block * kQueries + first + pass * kRows + lane / kChunks;
    x[pass] = y[pass] = make_uint4(0, 0, 0, 0);
    if (i < S_q) {
      const long long place = ((static_cast<long long>(b) * S_q + i) * H + h) * kChunks + chunk;
      x[pass] = o[place], y[pass] = grad[place];
    }
  }
#pragma unroll
  for (int pass = 0; pass < passes; ++pass) {
    const int row = first + pass * kRows + lane / kChunks, i = block * kQueries + row;
    float delta = 0.0f;
    const u32 left[4] = {x[pass].x, x[pass].y, x[pass].z, x[pass].w};
    const u32 right[4] = {y[pass].x, y[pass].y, y[pass].z, y[pass].w};
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float2 l = widened_pair(left[e]), r = widened_pair(right[e]);
      delta = fmaf(l.x, r.x, fmaf(l.y, r.y, delta));
    }
#pragma unroll
    for (int bit = kChunks / 2; bit > 0; bit /= 2) delta += __shfl_xor_sync(0xffffffffu, delta, bit);
    if (chunk == 0) {
      const float infinity = __int_as_float(0x7f800000);
      const float base = i < S_q ? lse[static_cast<long long>(bh) * S_q + i] : -infinity;
      float* const to = stats + static_cast<long long>(at) * (2 * kQueries) + row / 16 * 16 + row % 8 / 2 * 4 +
                        row % 16 / 8 * 2 + row % 2;
      to[0] = base == -infinity ? infinity : base * 1.44269504f;
      to[kQueries] = delta;
    }
  }
}

// 16 of a block's queries: sums of dq to the output. They lie as the warps' fragments.
__device__ __forceinline__ void finish_rows(const float* sums, uint4* dq, int H, int S_q, int m_blocks, int at, int part,
                                            float scale) {
  const int bh = at / m_blocks, b = bh / H, h = bh - b * H, block = at - bh * m_blocks;
  const int lane = threadIdx.x % 32, first = block * kQueries + 16 * part;
  const float* const from =
      sums + static_cast<long long>(at) * (kQueries * D) + part / 4 * 4096 + (32 * (part % 4) + lane) * 4;
  const long long stride = static_cast<long long>(H) * kChunks;
  uint4* const to = dq + ((static_cast<long long>(b) * S_q + first) * H + h) * kChunks;
#pragma unroll 1
  for (int i = 0; i < D / 32; ++i) {
    float4 x[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) x[e] = load_sums(from + (4 * i + e) * 512);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = lane / 4 + 8 * r;
      u32 y[4];
#pragma unroll
      for (int e = 0; e < 4; ++e)
        y[e] = r == 0 ? pack(x[e].x * scale, x[e].y * scale) : pack(x[e].z * scale, x[e].w * scale);
      const int quarter = lane % 4;
      exchange(y[0], y[1], quarter & 1, 1);
      exchange(y[2], y[3], quarter & 1, 1);
      exchange(y[0], y[2], quarter & 2, 2);
      exchange(y[1], y[3], quarter & 2, 2);
      if (first + row < S_q) to[row * stride + 4 * i + quarter] = make_uint4(y[0], y[1], y[2], y[3]);
    }
  }
}

}  // namespace
