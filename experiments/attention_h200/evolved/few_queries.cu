/*--- cultivar
name: attention_split_wgmma
task: attention_forward
target: cuda
about: "Few queries on many keys: several blocks share the keys of a head, a warpgroup multiplies 64 keys by up to 32 rows of queries with wgmma, transposed (keys as M, rows as N), and a second kernel combines the blocks' results."
requires: "dtype != f32 && (D == 64 || D == 128 || D == 256) && scale > 0"
tunables:
  STAGES: {values: [2, 3, 4, 6], default: 3} # tiles in flight
  WAVES: {values: [1, 2, 3, 4, 6, 8, 12], default: 4} # blocks per multiprocessor that are worth a split
  LEAST: {values: [2, 4, 8], default: 8} # tiles that are worth a block
constraints: ["smem <= smem_max"]
specialize: [D, causal, dtype, strips]
let:
  group: "H / H_kv"
  rows: "group * S_q"                               # of a key head: what shares its keys
  strips: "rows <= 8 ? 1 : rows <= 16 ? 2 : 4"      # of 8 rows
  stages: "D == 256 ? min(STAGES, 3) : STAGES"
  smem: "1024 + 8 * strips * (D * 2 + 128) + stages * 2 * 64 * D * 2 + 256 * strips"
  m_blocks: "ceil_div(rows, 8 * strips)"
  units: "B * H_kv * m_blocks"
  wanted: "max(1, min(ceil_div(WAVES * num_sms, units), floor_div(S_kv, LEAST * 64)))"
  team: "wanted >= 8 ? 8 : wanted >= 4 ? 4 : wanted >= 2 ? 2 : 1"  # blocks of a cluster
  gangs: "floor_div(wanted, team)"                  # clusters that share the keys of a unit
  splits: "team * gangs"
  each: "round_up(ceil_div(S_kv, splits), 64)"      # keys of a block; the last blocks may have none
workspace:
  parts: {bytes: "gangs == 1 ? 0 : 4 * gangs * B * H * S_q * D"}
  stats: {bytes: "gangs == 1 ? 0 : 8 * gangs * B * H * S_q"}
launch:
  - kernel: attention_forward
    grid: [units * splits, 1, 1]
    block: [128, 1, 1]
    cluster: [team, 1, 1]
    shared: smem
    args: [q, k, v, o, lse, parts, stats, H_kv, group, S_q, S_kv, m_blocks, each, gangs, team, scale]
  - kernel: combine
    when: "gangs > 1"
    grid: [B * H * S_q, 1, 1]
    block: [256, 1, 1]
    shared: "4 * gangs + 4096"
    args: [parts, stats, o, lse, H, group, S_q, S_kv, gangs, scale]
---*/

// A row is a query of a head; the `rows` rows that read one key head are numbered query by query, so neighbors see almost
// the same keys. A block, one warpgroup, has 8 * strips rows and `each` keys, in tiles of 64. Shared tiles are cut into
// parts of 64 columns (128 bytes); of the 16-byte chunks of a row, number c lies at c ^ (row % 8), wgmma's swizzle of 128
// bytes. The blocks of a cluster have neighboring keys of the same rows; at the end each combines its share of the elements
// from the shared memory of all. Where several clusters share the keys, their sums, relative to their maximum, go to
// `parts` [key head of a sequence, cluster, row, D], their maxima and totals to `stats`.

#ifdef DTYPE_BF16
#define TYPE "bf16"
#else
#define TYPE "f16"
#endif

using u32 = unsigned;
using u64 = unsigned long long;
using Index = long long;

namespace {

// An enum, because NVRTC would make writable device globals of constants.
enum : int {
  kHead = D,
  kMasked = causal,
  kRows = 8 * strips,
  kColumns = kRows / 4,  // rows of queries of which a thread has elements
  kKeys = 64,
  kThreads = 128,
  kStages = kHead == 256 && STAGES > 3 ? 3 : STAGES,
  kChunks = kHead / 8,
  kParts = kHead / 64,
  kTile = kKeys * kHead * 2,
  kPitch = kHead + 4,
  kCombiners = 256
};

__device__ __forceinline__ float minus_infinity() {
  return __int_as_float(0xff800000);
}
__device__ __forceinline__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// What weights are relative to: 2^(x * scale) for the greatest logit x so far, `product` being x * scale, rounded. As soon as that may be
// rounded by much, `rest` is what the rounding left out, and else 0.
struct Base {
  float product, rest;
  __device__ __forceinline__ Base(float top, float scale) {
    product = top == minus_infinity() ? 0.0f : __fmul_rn(top, scale);
    rest = fabsf(product) > 4096.0f ? fmaf(top, scale, -product) : 0.0f;
  }
  // The weight of a logit.
  __device__ __forceinline__ float weight(float x, float scale) const {
    return exp2_fast(fmaf(x, scale, -product) - rest);
  }
  // What weights relative to `before` are to be multiplied by: exactly 1 if the maximum is the same.
  __device__ __forceinline__ float shrink(float before, float top, float scale) const {
    return exp2_fast(fabsf(product) > 4096.0f ? __fmul_rn(before - top, scale) : __fmul_rn(before, scale) - product);
  }
};
__device__ __forceinline__ u32 pack(float low, float high) {
  u32 both;
  asm("cvt.rn." TYPE "x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}

// A chunk of a tile of `height` rows.
template <int height>
__device__ __forceinline__ u32 chunk_at(u32 tile, int row, int chunk) {
  return tile + chunk / 8 * (height * 128) + row * 128 + ((chunk % 8) ^ (row % 8)) * 16;
}
__device__ __forceinline__ void copy_chunk(u32 to, const uint4* from, bool there) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(there ? 16 : 0)
               : "memory");
}
__device__ __forceinline__ void copies_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int pending>
__device__ __forceinline__ void copies_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}
// Makes this thread's writes to shared memory visible to wgmma.
__device__ __forceinline__ void show_writes() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Of a tile of swizzled rows of 128 bytes: groups of 8 rows lie 1024 bytes apart. Offsets are added in units of 16 bytes.
__device__ __forceinline__ u64 descriptor(u32 address) {
  return static_cast<u64>((address & 0x3ffff) >> 4) | (64ull << 16) | (64ull << 32) | (1ull << 62);
}
__device__ __forceinline__ void products_begin() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void products_wait() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}
// Waits for all threads of the cluster; their writes to shared memory are visible.
__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// The same place in the shared memory of another block of the cluster.
__device__ __forceinline__ u32 place_in(u32 address, int block) {
  u32 there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(block));
  return there;
}
__device__ __forceinline__ float far_float(u32 address) {
  float x;
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(x) : "r"(address) : "memory");
  return x;
}
__device__ __forceinline__ float4 far_float4(u32 address) {
  float4 x;
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
               : "r"(address)
               : "memory");
  return x;
}
// Keeps the compiler from moving uses of accumulators over this place.
template <int n>
__device__ __forceinline__ void pin(float (&x)[n]) {
#pragma unroll
  for (int i = 0; i < n; ++i) asm volatile("" : "+f"(x[i])::"memory");
}

// c [64, kRows] (+)= a [64, 16] b [16, kRows]; transposed: of a, the first index runs along the rows of 128 bytes.
template <int transposed>
__device__ __forceinline__ void multiply(float (&c)[kRows / 2], u64 a, u64 b, int add) {
#if strips == 1
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %6, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n8k16.f32." TYPE "." TYPE
      " {%0, %1, %2, %3}, %4, %5, p, 1, 1, %7, 0;\n}\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "l"(a), "l"(b), "r"(add), "n"(transposed));
#elif strips == 2
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %10, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n16k16.f32." TYPE "." TYPE
      " {%0, %1, %2, %3, %4, %5, %6, %7}, %8, %9, p, 1, 1, %11, 0;\n}\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7])
      : "l"(a), "l"(b), "r"(add), "n"(transposed));
#else
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %18, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32." TYPE "." TYPE
      " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, %16, %17, p, 1, 1, %19, 0;\n}\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]),
        "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15])
      : "l"(a), "l"(b), "r"(add), "n"(transposed));
#endif
}

// Stores two matrices of 8 by 8 transposed; lanes 0 to 15 point to their rows.
__device__ __forceinline__ void store_transposed(u32 address, u32 x, u32 y) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(address), "r"(x), "r"(y)
               : "memory");
}

// The log-sum-exp of a row whose weights 2^(logit * scale2 - high) have the sum `total`: high * scale / scale2 + ln(total), by pairs
// of floats, so that only the result is rounded. (`high` is relative to the rounded scale2, as the weights are.)
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

// Keys that a query sees.
__device__ __forceinline__ int seen_by(int query, int S_q, int S_kv) {
  return kMasked ? max(0, min(S_kv, query + S_kv - S_q + 1)) : S_kv;
}

// kKeys rows from `first`, zeros from `end` on.
__device__ __forceinline__ void copy_tile(u32 tile, const uint4* from, Index stride, int first, int end) {
#pragma unroll
  for (int i = 0; i < kKeys * kChunks / kThreads; ++i) {
    const int number = threadIdx.x + i * kThreads, row = number / kChunks, chunk = number % kChunks;
    const bool there = first + row < end;
    copy_chunk(chunk_at<kKeys>(tile, row, chunk), there ? from + (first + row) * stride + chunk : from, there);
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads)
    attention_forward(const uint4* q, const uint4* k, const uint4* v, uint4* o, float* lse, float4* parts,
                      float2* stats, int H_kv, int group, int S_q, int S_kv, int m_blocks, int each,
                      int gangs, int team, float scale) {
  extern __shared__ uint4 shared[];
  const u32 start = static_cast<u32>(__cvta_generic_to_shared(shared));
  const u32 queries = (start + 1023) / 1024 * 1024;            // [kRows, kHead]
  const u32 weights = queries + kRows * kHead * 2;             // [kRows, kKeys]
  const u32 ring = weights + kRows * 128;                      // stages of a tile of K and one of V
  char* const base_of_all = reinterpret_cast<char*>(shared) + (queries - start);
  float* const sums = reinterpret_cast<float*>(base_of_all + (ring - queries));  // at last, [kRows, kPitch]
  float* const highs = reinterpret_cast<float*>(base_of_all + (ring - queries) + kStages * 2 * kTile);  // [4, kRows]
  float* const totals = highs + 4 * kRows;                                                              // [4, kRows]
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, rows = group * S_q;
  // rank: number in the cluster; neighboring clusters have the same keys; head: key head of a sequence.
  const int rank = blockIdx.x % team, unit = blockIdx.x / team;
  const int first_row = unit % m_blocks * kRows, part = unit / m_blocks;
  const int gang = part % gangs, head = part / gangs, split = gang * team + rank;
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
  const auto copy_both = [&](int t) {
    if (t < tiles) {
      const u32 to = ring + t % kStages * (2 * kTile);
      copy_tile(to, k + kv_at, kv_stride, first_key + t * kKeys, end);
      copy_tile(to + kTile, v + kv_at, kv_stride, first_key + t * kKeys, end);
    }
    copies_commit();
  };
  // The queries belong to the first tile's group.
  for (int i = threadIdx.x; i < kRows * kChunks; i += kThreads) {
    const int row = i / kChunks, chunk = i % kChunks;
    const bool there = first_row + row < rows;
    copy_chunk(chunk_at<kRows>(queries, row, chunk), there ? q + row_at(first_row + row) + chunk : q, there);
  }
  for (int t = 0; t < kStages - 1; ++t) copy_both(t);

  // Of kRows columns of a product a thread has two of each 8, in rows lane / 4 and 8 more of its warp's 16.
  float sum_of[kParts][kRows / 2] = {};
  float top[kColumns], total[kColumns];
#pragma unroll
  for (int c = 0; c < kColumns; ++c) top[c] = minus_infinity(), total[c] = 0.0f;
  const u64 query_matrix = descriptor(queries), weight_matrix = descriptor(weights);

#pragma unroll 1
  for (int t = 0; t < tiles; ++t) {
    copies_wait<kStages - 2>();
    show_writes();
    __syncthreads();  // the tile is here, and every warp is done with the one before
    copy_both(t + kStages - 1);
    const u32 key_tile = ring + t % kStages * (2 * kTile);
    const u64 key_matrix = descriptor(key_tile), value_matrix = descriptor(key_tile + kTile);

    float s[kRows / 2] = {};
    pin(s);
    products_begin();
#pragma unroll
    for (int step = 0; step < kHead / 16; ++step)
      multiply<0>(s, key_matrix + step / 4 * (kKeys * 8) + step % 4 * 2,
                  query_matrix + step / 4 * (kRows * 8) + step % 4 * 2, step > 0);
    products_wait();
    pin(s);

    const int tile_key = first_key + t * kKeys;
    if (tile_key + kKeys > least) {
      const int key = tile_key + 16 * warp + lane / 4;
#pragma unroll
      for (int i = 0; i < kRows / 2; ++i) {
        const int row = min(first_row + i / 4 * 8 + lane % 4 * 2 + i % 2, last);
        if (key + i / 2 % 2 * 8 >= seen_by(row / group, S_q, S_kv)) s[i] = minus_infinity();
      }
    }
    float high[kColumns];
    bool rose = false;
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      high[c] = fmaxf(top[c], fmaxf(s[c / 2 * 4 + c % 2], s[c / 2 * 4 + c % 2 + 2]));
      rose = rose || high[c] > top[c];
    }
    // All threads agree on `top`, so they have to find a new one only where somebody found more.
    if (__syncthreads_or(rose)) {
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
#pragma unroll
        for (int bit = 4; bit < 32; bit *= 2)
          high[c] = fmaxf(high[c], __shfl_xor_sync(0xffffffffu, high[c], bit));
        if (lane < 4) highs[warp * kRows + c / 2 * 8 + lane * 2 + c % 2] = high[c];
      }
      __syncthreads();
      float shrink[kColumns];
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        const float* const of = highs + c / 2 * 8 + lane % 4 * 2 + c % 2;
        const float now = fmaxf(fmaxf(of[0], of[kRows]), fmaxf(of[2 * kRows], of[3 * kRows]));
        shrink[c] = Base(now, scale2).shrink(top[c], now, scale2);
        total[c] *= shrink[c];
        top[c] = now;
      }
#pragma unroll
      for (int j = 0; j < kParts; ++j)
#pragma unroll
        for (int i = 0; i < kRows / 2; ++i) sum_of[j][i] *= shrink[i / 4 * 2 + i % 2];
    }
#pragma unroll
    for (int i = 0; i < kRows / 2; ++i) {
      const int c = i / 4 * 2 + i % 2;
      s[i] = Base(top[c], scale2).weight(s[i], scale2);
      total[c] += s[i];
    }
#pragma unroll
    for (int g = 0; g < kRows / 8; ++g)
      store_transposed(chunk_at<kRows>(weights, 8 * g + lane % 8, 2 * warp + lane / 8 % 2),
                       pack(s[4 * g], s[4 * g + 1]), pack(s[4 * g + 2], s[4 * g + 3]));
    show_writes();
    __syncthreads();

#pragma unroll
    for (int j = 0; j < kParts; ++j) pin(sum_of[j]);
    products_begin();
#pragma unroll
    for (int step = 0; step < kKeys / 16; ++step)
#pragma unroll
      for (int j = 0; j < kParts; ++j)
        multiply<1>(sum_of[j], value_matrix + j * (kKeys * 8) + step * 128, weight_matrix + step * 2, 1);
    products_wait();
#pragma unroll
    for (int j = 0; j < kParts; ++j) pin(sum_of[j]);
  }
  copies_wait<0>();
  __syncthreads();

  // The sums take the place of the tiles.
#pragma unroll
  for (int c = 0; c < kColumns; ++c) {
    float x = total[c];
#pragma unroll
    for (int bit = 4; bit < 32; bit *= 2) x += __shfl_xor_sync(0xffffffffu, x, bit);
    const int row = c / 2 * 8 + lane % 4 * 2 + c % 2;
    if (lane < 4) totals[warp * kRows + row] = x;
    if (threadIdx.x < 4) highs[row] = __fmul_rn(top[c], scale2);
  }
#pragma unroll
  for (int j = 0; j < kParts; ++j)
#pragma unroll
    for (int i = 0; i < kRows / 2; ++i)
      sums[(i / 4 * 8 + lane % 4 * 2 + i % 2) * kPitch + 64 * j + 16 * warp + lane / 4 + i / 2 % 2 * 8] = sum_of[j][i];
  __syncthreads();
  // Behind the maxima, the totals of the block.
  if (threadIdx.x < kRows) {
    const float* const of = totals + threadIdx.x;
    highs[kRows + threadIdx.x] = (of[0] + of[kRows]) + (of[2 * kRows] + of[3 * kRows]);
  }
  if (team > 1)
    cluster_sync();
  else
    __syncthreads();
  const int share = kRows * kChunks / team;
  for (int i = threadIdx.x; i < share; i += kThreads) {
    const int number = rank * share + i;
    const int local = number / kChunks, chunk = number % kChunks, row = first_row + local, query = row / group;
    if (row >= rows) break;
    const u32 high_at = ring + kStages * 2 * kTile + 4 * local;
    const u32 sum_at = ring + 4 * (local * kPitch + 8 * chunk);
    float high = minus_infinity();
#pragma unroll 4
    for (int m = 0; m < team; ++m) high = fmaxf(high, far_float(place_in(high_at, m)));
    const float base = high == minus_infinity() ? 0.0f : high;
    float all = 0.0f;
    float4 low = make_float4(0.0f, 0.0f, 0.0f, 0.0f), up = low;
#pragma unroll 4
    for (int m = 0; m < team; ++m) {
      const u32 high_there = place_in(high_at, m), sum_there = place_in(sum_at, m);
      const float weight = exp2_fast(far_float(high_there) - base);
      all = fmaf(far_float(high_there + 4 * kRows), weight, all);
      const float4 x = far_float4(sum_there), y = far_float4(sum_there + 16);
      low.x = fmaf(x.x, weight, low.x), low.y = fmaf(x.y, weight, low.y);
      low.z = fmaf(x.z, weight, low.z), low.w = fmaf(x.w, weight, low.w);
      up.x = fmaf(y.x, weight, up.x), up.y = fmaf(y.y, weight, up.y);
      up.z = fmaf(y.z, weight, up.z), up.w = fmaf(y.w, weight, up.w);
    }
    if (gangs > 1) {
      const Index at = (static_cast<Index>(head) * gangs + gang) * rows + row;
      parts[at * (kHead / 4) + 2 * chunk] = low;
      parts[at * (kHead / 4) + 2 * chunk + 1] = up;
      if (chunk == 0) stats[at] = make_float2(high, all);
      continue;
    }
    const bool nothing = seen_by(query, S_q, S_kv) == 0;
    const float factor = nothing ? 0.0f : 1.0f / all;
    o[row_at(row) + chunk] = make_uint4(pack(low.x * factor, low.y * factor), pack(low.z * factor, low.w * factor),
                                        pack(up.x * factor, up.y * factor), pack(up.z * factor, up.w * factor));
    if (chunk == 0)
      lse[(static_cast<Index>(head) * group + row % group) * S_q + query] =
          nothing ? minus_infinity() : natural(high, all, scale);
  }
  // No block ends while another reads its shared memory.
  if (team > 1) cluster_sync();
}

// A block combines one row of one head: its sums of all clusters, whose maxima differ.
extern "C" __global__ void __launch_bounds__(kCombiners)
    combine(const float4* parts, const float2* stats, uint2* o, float* lse, int H, int group, int S_q,
            int S_kv, int splits, float scale) {
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
  const bool nothing = seen_by(query, S_q, S_kv) == 0;
  const float factor = nothing ? 0.0f : 1.0f / total;
  o[static_cast<Index>(blockIdx.x) * kWide + wide] =
      make_uint2(pack(x.x * factor, x.y * factor), pack(x.z * factor, x.w * factor));
  if (wide == 0)
    lse[(static_cast<Index>(b) * H + h) * S_q + query] =
        nothing ? minus_infinity() : natural(high, total, scale);
}
