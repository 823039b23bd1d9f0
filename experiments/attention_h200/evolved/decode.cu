/*--- cultivar
name: attention_split
task: attention_forward
target: cuda
about: "Few queries on many keys: several blocks share the keys of a head, queries and heads that read the same keys share a tile of mma.sync, and a second kernel combines the blocks' results."
requires: "dtype != f32 && (D == 64 || D == 128 || D == 256) && scale > 0"
tunables:
  WARPS: {values: [1, 2, 4], default: 2}    # of a block, each with keys of its own
  KEYS: {values: [16, 32, 64], default: 16} # in a warp's tile (fewer where registers or shared memory are short)
  STAGES: {values: [2, 3, 4, 6], default: 3} # tiles in flight
  WAVES: {values: [1, 2, 3, 4, 6, 8, 12], default: 1} # blocks per multiprocessor that are worth a split
  LEAST: {values: [1, 2, 4, 8], default: 1} # tiles of each warp that are worth a block
constraints: ["smem <= smem_max"]
specialize: [D, causal, dtype, strips]
let:
  group: "H / H_kv"
  rows: "group * S_q"                               # of a key head: what shares its keys
  strips: "rows > 16 && D < 256 ? 2 : 1"            # of 16 rows
  keys: "min(KEYS, D == 256 ? 16 : strips == 2 ? 32 : 64)"
  smem: "(16 * strips + 2 * WARPS * STAGES * keys) * D * 2 + 8 * WARPS * 16 * strips"
  m_blocks: "ceil_div(rows, 16 * strips)"
  units: "B * H_kv * m_blocks"
  wanted: "max(1, min(ceil_div(WAVES * num_sms, units), floor_div(S_kv, LEAST * WARPS * keys)))"
  each: "round_up(ceil_div(S_kv, wanted), keys)"    # keys of a block
  splits: "ceil_div(S_kv, each)"
headers: [approximate.cuh, fragments.cuh, sixteen_bits.cuh, split_keys.cuh]
workspace:
  parts: {bytes: "splits == 1 ? 0 : 4 * splits * B * H * S_q * D"}
  stats: {bytes: "splits == 1 ? 0 : 8 * splits * B * H * S_q"}
launch:
  - kernel: attention_forward
    grid: [units * splits, 1, 1]
    block: [32 * WARPS, 1, 1]
    shared: smem
    args: [q, k, v, o, lse, parts, stats, H_kv, group, S_q, S_kv, m_blocks, each, splits, scale]
  - kernel: combine
    when: "splits > 1"
    grid: [B * H * S_q, 1, 1]
    block: [256, 1, 1]
    shared: "4 * splits + 4096"
    args: [parts, stats, o, lse, H, group, S_q, S_kv, splits]
---*/

// A row is a query of a head; the `rows` rows that read one key head are numbered query by query, so those of 16 see
// almost the same keys. A block has 16 * strips rows and `each` keys. Its warps take tiles of keys in turn, each through
// its own ring of buffers, so that no barrier is needed until their results are added. Of the 16-byte chunks of a shared
// row, number c lies at c ^ (row % 8). Maxima are true ones; where a split is needed, the sums of a block, relative to
// its maximum, go to `parts` [key head of a sequence, split, row, D], their maxima and totals to `stats`.

#include "split_keys.cuh"

namespace {

// A warp's tile: kKeys rows from `first`, zeros from `end` on.
__device__ __forceinline__ void copy_tile(u32 tile, const uint4* from, Index stride, int first, int end) {
  const int lane = threadIdx.x % 32, chunk = lane % kChunks;
#pragma unroll
  for (int row = 0; row < kKeys; row += kChunks >= 32 ? 1 : 32 / kChunks) {
    const int mine = row + (kChunks >= 32 ? 0 : lane / kChunks);
    const bool there = first + mine < end;
    copy_chunk(chunk_at(tile, mine, chunk), there ? from + (first + mine) * stride + chunk : from, there);
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads)
    attention_forward(const uint4* q, const uint4* k, const uint4* v, uint4* o, float* lse, float4* parts,
                      float2* stats, int H_kv, int group, int S_q, int S_kv, int m_blocks, int each,
                      int splits, float scale) {
  extern __shared__ uint4 shared[];
  const u32 queries = static_cast<u32>(__cvta_generic_to_shared(shared));
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, rows = group * S_q;
  const u32 ring = queries + kRows * kRowBytes + warp * (2 * STAGES * kTile);
  // Neighbors have the same keys; head: key head of a sequence.
  const int first_row = blockIdx.x % m_blocks * kRows, part = blockIdx.x / m_blocks;
  const int split = part % splits, head = part / splits;
  const int b = head / H_kv, h_kv = head - b * H_kv;
  const Index kv_stride = static_cast<Index>(H_kv) * kChunks;
  const Index kv_at = (static_cast<Index>(b) * S_kv * H_kv + h_kv) * kChunks;
  const float scale2 = scale * 1.44269504f;
  // Chunks from the first row of this key head to another.
  const auto row_at = [&](int row) {
    const int query = row / group;
    return (((static_cast<Index>(b) * S_q + query) * H_kv + h_kv) * group + (row - query * group)) * kChunks;
  };

  // Row by row, keys are seen by more queries.
  const int last = min(first_row + kRows, rows) - 1;
  const int least = seen_by(first_row / group, S_q, S_kv), most = seen_by(last / group, S_q, S_kv);
  const int first_key = split * each, end = min(first_key + each, most);
  const int tiles = end > first_key ? (end - first_key + kKeys - 1) / kKeys : 0;
  const auto copy_both = [&](int t) {  // the warp's tile number t, of the block's number t * WARPS + warp
    const int tile = t * WARPS + warp;
    if (tile < tiles) {
      const u32 to = ring + t % STAGES * (2 * kTile);
      copy_tile(to, k + kv_at, kv_stride, first_key + tile * kKeys, end);
      copy_tile(to + kTile, v + kv_at, kv_stride, first_key + tile * kKeys, end);
    }
    copies_commit();
  };
  for (int t = 0; t < STAGES - 1; ++t) copy_both(t);

  for (int i = threadIdx.x; i < kRows * kChunks; i += kThreads) {
    const int row = i / kChunks, chunk = i % kChunks;
    const uint4 none = {0, 0, 0, 0};
    shared[row * kChunks + (chunk ^ (row % 8))] =
        first_row + row < rows ? q[row_at(first_row + row) + chunk] : none;
  }
  Strip strip[kStrips];
#pragma unroll
  for (int t = 0; t < kStrips; ++t)
#pragma unroll
    for (int r = 0; r < 2; ++r)
      strip[t].visible[r] = seen_by(min(first_row + 16 * t + 8 * r + lane / 4, last) / group, S_q, S_kv);
  __syncthreads();

  // Where this lane points ldmatrix: rows of queries (and of V, which is transposed), rows of keys.
  const int a_row = lane % 16, a_chunk = lane / 16, k_row = lane / 16 * 8 + lane % 8, k_chunk = lane / 8 % 2;
#pragma unroll 1
  for (int t = 0; t * WARPS + warp < tiles; ++t) {
    copies_wait<STAGES - 2>();
    __syncwarp();  // the tile is here, and every lane is done with the one before
    copy_both(t + STAGES - 1);
    const u32 key_tile = ring + t % STAGES * (2 * kTile), value_tile = key_tile + kTile;
    float s[kStrips][kKeys / 2] = {};
#pragma unroll
    for (int step = 0; step < kHead / 16; ++step) {
      u32 a[kStrips][4];
#pragma unroll
      for (int m = 0; m < kStrips; ++m)
        load_matrices(a[m], chunk_at(queries, 16 * m + a_row, 2 * step + a_chunk));
#pragma unroll
      for (int n = 0; n < kKeys / 16; ++n) {
        u32 x[4];
        load_matrices(x, chunk_at(key_tile, 16 * n + k_row, 2 * step + k_chunk));
#pragma unroll
        for (int m = 0; m < kStrips; ++m) {
          multiply(s[m] + 8 * n, a[m], x[0], x[1]);
          multiply(s[m] + 8 * n + 4, a[m], x[2], x[3]);
        }
      }
    }
    const int key = first_key + (t * WARPS + warp) * kKeys;
#pragma unroll
    for (int m = 0; m < kStrips; ++m) strip[m].soften(s[m], key + kKeys > least, key + lane % 4 * 2, scale2);
#pragma unroll
    for (int step = 0; step < kKeys / 16; ++step) {
      u32 p[kStrips][4];
#pragma unroll
      for (int m = 0; m < kStrips; ++m)
#pragma unroll
        for (int e = 0; e < 4; ++e) p[m][e] = pack(s[m][8 * step + 2 * e], s[m][8 * step + 2 * e + 1]);
#pragma unroll
      for (int n = 0; n < kHead / 16; ++n) {
        u32 x[4];
        load_transposed(x, chunk_at(value_tile, 16 * step + a_row, 2 * n + a_chunk));
#pragma unroll
        for (int m = 0; m < kStrips; ++m) {
          multiply(strip[m].o + 8 * n, p[m], x[0], x[1]);
          multiply(strip[m].o + 8 * n + 4, p[m], x[2], x[3]);
        }
      }
    }
  }
  copies_wait<0>();

  // The warps' sums are added, in their order, in the place of the tiles: first their maxima and totals.
  float* const sums = reinterpret_cast<float*>(shared + kRows * kChunks);  // [WARPS, kRows, kHead]
  float2* const seen = reinterpret_cast<float2*>(shared + (kRows + 2 * WARPS * STAGES * kKeys) * kChunks);
#pragma unroll
  for (int m = 0; m < kStrips; ++m)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float sum = strip[m].sum[r];
      sum += __shfl_xor_sync(0xffffffffu, sum, 1);
      sum += __shfl_xor_sync(0xffffffffu, sum, 2);
      if (lane % 4 == 0)
        seen[warp * kRows + 16 * m + 8 * r + lane / 4] = make_float2(__fmul_rn(strip[m].top[r], scale2), sum);
    }
  __syncthreads();
#pragma unroll
  for (int m = 0; m < kStrips; ++m)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = 16 * m + 8 * r + lane / 4;
      float high = minus_infinity();
      for (int w = 0; w < WARPS; ++w) high = fmaxf(high, seen[w * kRows + row].x);
      const float factor = exp2_fast(seen[warp * kRows + row].x - (high == minus_infinity() ? 0.0f : high));
      float* const to = sums + (warp * kRows + row) * kHead + lane % 4 * 2;
#pragma unroll
      for (int i = 0; i < kHead / 8; ++i) {
        to[8 * i] = strip[m].o[4 * i + 2 * r] * factor;
        to[8 * i + 1] = strip[m].o[4 * i + 2 * r + 1] * factor;
      }
    }
  __syncthreads();
  for (int i = threadIdx.x; i < kRows * kChunks; i += kThreads) {
    const int local = i / kChunks, chunk = i % kChunks, row = first_row + local, query = row / group;
    if (row >= rows) break;
    float high = minus_infinity(), total = 0.0f, x[8] = {};
    for (int w = 0; w < WARPS; ++w) high = fmaxf(high, seen[w * kRows + local].x);
    const float base = high == minus_infinity() ? 0.0f : high;
    for (int w = 0; w < WARPS; ++w) {
      total = fmaf(seen[w * kRows + local].y, exp2_fast(seen[w * kRows + local].x - base), total);
      const float4* const from =
          reinterpret_cast<const float4*>(sums + (w * kRows + local) * kHead) + 2 * chunk;
      const float4 low = from[0], up = from[1];
      x[0] += low.x, x[1] += low.y, x[2] += low.z, x[3] += low.w;
      x[4] += up.x, x[5] += up.y, x[6] += up.z, x[7] += up.w;
    }
    if (splits > 1) {
      const Index at = (static_cast<Index>(head) * splits + split) * rows + row;
      parts[at * (kHead / 4) + 2 * chunk] = make_float4(x[0], x[1], x[2], x[3]);
      parts[at * (kHead / 4) + 2 * chunk + 1] = make_float4(x[4], x[5], x[6], x[7]);
      if (chunk == 0) stats[at] = make_float2(high, total);
      continue;
    }
    const bool nothing = seen_by(query, S_q, S_kv) == 0;
    const float factor = nothing ? 0.0f : 1.0f / total;
    o[row_at(row) + chunk] =
        make_uint4(pack(x[0] * factor, x[1] * factor), pack(x[2] * factor, x[3] * factor),
                   pack(x[4] * factor, x[5] * factor), pack(x[6] * factor, x[7] * factor));
    if (chunk == 0)
      lse[(static_cast<Index>(head) * group + row % group) * S_q + query] =
          nothing ? minus_infinity() : (high + log2f(total)) * 0.693147181f;
  }
}

// A block combines one row of one head.
extern "C" __global__ void __launch_bounds__(kCombiners)
    combine(const float4* parts, const float2* stats, uint2* o, float* lse, int H, int group, int S_q,
            int S_kv, int splits) {
  combine_row(parts, stats, o, lse, H, group, S_q, splits, [&](int) { return S_kv; });
}
//// file: approximate.cuh ////
// Functions that a multiprocessor computes in one instruction, with a relative error of about 2^-22; subnormal numbers count as 0.
#pragma once

namespace {

__device__ __forceinline__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ float reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace
//// file: fragments.cuh ////
// Waits for copies to shared memory in the background, and products of fragments of 16 by 16 by mma.sync.
#pragma once

#include "sixteen_bits.cuh"

namespace {

__device__ __forceinline__ void copies_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int pending>
__device__ __forceinline__ void copies_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}
__device__ __forceinline__ void load_matrices(u32 (&x)[4], u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(address)
               : "memory");
}
__device__ __forceinline__ void load_transposed(u32 (&x)[4], u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(address)
               : "memory");
}
__device__ __forceinline__ void multiply(float* c, const u32* a, u32 b0, u32 b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." TYPE "." TYPE
               ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace
//// file: sixteen_bits.cuh ////
// Elements of 16 bits, f16 or bf16 (dtype is specialized). TYPE is the name of theirs in instructions.
#pragma once

#ifdef DTYPE_BF16
#define TYPE "bf16"
#else
#define TYPE "f16"
#endif

using u32 = unsigned;
using Element = unsigned short;

namespace {

__device__ __forceinline__ float widened(Element x) {
#ifdef DTYPE_BF16
  return __uint_as_float(static_cast<u32>(x) << 16);
#else
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
  return y;
#endif
}

__device__ __forceinline__ u32 pack(float low, float high) {
  u32 both;
  asm("cvt.rn." TYPE "x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}

// A transposition of 2 by 2 between lanes that differ in `bit`.
__device__ __forceinline__ void exchange(u32& low, u32& high, bool upper, int bit) {
  const u32 got = __shfl_xor_sync(0xffffffffu, upper ? low : high, bit);
  if (upper)
    low = got;
  else
    high = got;
}

}  // namespace
//// file: split_keys.cuh ////
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
    float base[2], shrink[2];
    bool rose = false;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float high = top[r];
#pragma unroll
      for (int j = 0; j < kKeys / 8; ++j) high = fmaxf(high, fmaxf(s[4 * j + 2 * r], s[4 * j + 2 * r + 1]));
      high = fmaxf(high, __shfl_xor_sync(0xffffffffu, high, 1));
      high = fmaxf(high, __shfl_xor_sync(0xffffffffu, high, 2));
      // Rounded both times, so that an unchanged maximum shrinks by exactly 1.
      base[r] = high == minus_infinity() ? 0.0f : __fmul_rn(high, scale);
      shrink[r] = exp2_fast(__fmul_rn(top[r], scale) - base[r]);
      rose = rose || high != top[r];
      top[r] = high;
    }
    if (__any_sync(0xffffffffu, rose)) {
#pragma unroll
      for (int i = 0; i < kHead / 2; ++i) o[i] *= shrink[i / 2 % 2];
      sum[0] *= shrink[0];
      sum[1] *= shrink[1];
    }
#pragma unroll
    for (int j = 0; j < kKeys / 2; ++j) {
      s[j] = exp2_fast(fmaf(s[j], scale, -base[j / 2 % 2]));
      sum[j / 2 % 2] += s[j];
    }
  }
};

// One row of one head: its sums of all splits, whose maxima differ. keys_of(b) is the number of keys of sequence b.
template <class KeysOf>
__device__ __forceinline__ void combine_row(const float4* parts, const float2* stats, uint2* o, float* lse, int H, int group,
                                            int S_q, int splits, const KeysOf& keys_of) {
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
        nothing ? minus_infinity() : (high + log2f(total)) * 0.693147181f;
}

}  // namespace
