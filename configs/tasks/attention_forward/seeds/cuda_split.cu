/*--- cultivar
name: attention_split
task: attention_forward
target: cuda
about: "Few queries on many keys: several blocks share the keys of a head, queries and heads that read the same keys share a tile of mma.sync, and a second kernel combines the blocks' results."
requires: "dtype != f32 && (D == 64 || D == 128 || D == 256) && scale > 0"
tunables:
  WARPS: {values: [1, 2, 4], default: 4}    # of a block, each with keys of its own
  KEYS: {values: [16, 32, 64], default: 16} # in a warp's tile (fewer where registers or shared memory are short)
  STAGES: {values: [2, 3, 4, 6], default: 3} # tiles in flight
  WAVES: {values: [1, 2, 3, 4, 6, 8, 12], default: 4} # blocks per multiprocessor that are worth a split
  LEAST: {values: [1, 2, 4, 8], default: 2} # tiles of each warp that are worth a block
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
    args: [parts, stats, o, lse, H, group, S_q, S_kv, splits, scale]
---*/

// The `rows` rows that read one key head are numbered query by query, so that 16 of them see almost the same keys. A block has 16 *
// strips rows and `each` keys. Its warps take tiles of keys in turn, each through its own ring of buffers, so that no barrier is
// needed until their results are added. Maxima are true ones; where a split is needed, the sums of a block, relative to
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

  // Where this lane points ldmatrix: rows of queries (and of V, transposed), rows of keys.
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

  // The warps' sums are added in the place of the tiles: first their maxima and totals.
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
          nothing ? minus_infinity() : natural(high, total, scale);
  }
}

extern "C" __global__ void __launch_bounds__(kCombiners)
    combine(const float4* parts, const float2* stats, uint2* o, float* lse, int H, int group, int S_q,
            int S_kv, int splits, float scale) {
  combine_row(parts, stats, o, lse, H, group, S_q, splits, scale, [&](int) { return S_kv; });
}
