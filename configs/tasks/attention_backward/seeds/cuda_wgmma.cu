/*--- cultivar
name: attention_backward_wgmma
task: attention_backward
target: cuda
about: "Hopper: one thread feeds tiles of queries through TMA; two warpgroups of 64 keys each multiply with wgmma, P and DS are left factors from registers, DS also goes through shared memory for dq, which f32 atomics add up."
requires: "dtype != f32 && (D == 64 || D == 128)"
tunables:
  STAGES: {values: [2, 3], default: 2}               # tiles of Q and DO in shared memory
  EARLY: {values: [0, 1], default: 1}                # P^T DO begins before DO V^T has ended
  ORDER: {values: [heads, keys], default: heads}     # blocks that run together have a head, or a range of keys, in common
constraints:
  - "smem <= smem_max"
specialize: [D, causal, dtype]
let:
  m_blocks: "ceil_div(S_q, 64)"
  n_blocks: "ceil_div(S_kv, 128)"
  smem: "2 * D * (256 + 128 * STAGES) + 32768 + 512 * STAGES + 1280"  # 1024 to align, 256 for barriers
workspace:
  stats: {bytes: "512 * B * H * m_blocks"}                   # of each query: lse * log2(e) and delta
  sums: {bytes: "256 * B * H * m_blocks * D", zero: true}    # of dq
tensor_maps:
  map_q: {tensor: q, sizes: [D, H, S_q, B], strides: [D, H*D, S_q*H*D],
          box: [64, 1, 64, 1], swizzle: 128B, l2_promotion: 128B}
  map_do: {tensor: grad_o, sizes: [D, H, S_q, B], strides: [D, H*D, S_q*H*D],
           box: [64, 1, 64, 1], swizzle: 128B, l2_promotion: 128B}
  map_k: {tensor: k, sizes: [D, H_kv, S_kv, B], strides: [D, H_kv*D, S_kv*H_kv*D],
          box: [64, 1, 128, 1], swizzle: 128B, l2_promotion: 256B}
  map_v: {tensor: v, sizes: [D, H_kv, S_kv, B], strides: [D, H_kv*D, S_kv*H_kv*D],
          box: [64, 1, 128, 1], swizzle: 128B, l2_promotion: 256B}
launch:
  - kernel: prepare
    grid: ["B * H * m_blocks", 1, 1]
    block: [256, 1, 1]
    args: [o, lse, grad_o, stats, H, S_q, m_blocks]
  - kernel: attention_backward
    grid: ["B * H_kv * n_blocks", 1, 1]
    block: [384, 1, 1]
    shared: smem
    args: [map_q, map_do, map_k, map_v, stats, sums, dk, dv, H, H_kv, S_q, S_kv, m_blocks, n_blocks, scale]
  - kernel: finish
    grid: ["B * H * m_blocks", 1, 1]
    block: [256, 1, 1]
    args: [sums, dq, H, S_q, m_blocks, scale]
---*/

// A block has 128 keys of a key head and walks over tiles of 64 queries of the query heads that read it. The first
// warpgroup gives its registers away; one thread of it copies. Each other warpgroup, a team, has 64 of the keys:
//
//   S^T = K Q^T, DP^T = V DO^T          64 keys by 64 queries, in registers
//   P^T, DS^T = P^T * (DP^T - delta)    rounded, as left factors in registers
//   DV += P^T DO, DK += DS^T Q          in registers, until the last query
//   DQ += DS K                          DS of both teams through shared memory; each team has half of the head
//
// Where D is 64 each team adds the DQ of its own keys instead. Shared tiles are columns of 64 elements with the 128-byte
// swizzle. TMA fills what lies past the last row with zeros. A query that is not there or sees nothing has a base of
// +inf, so that its P is 0.

#ifdef DTYPE_BF16
#define TYPE "bf16"
#else
#define TYPE "f16"
#endif

struct alignas(64) CUtensorMap {
  unsigned long long opaque[16];
};
using u32 = unsigned;
using u64 = unsigned long long;

namespace {

// Enums, because NVRTC would make writable device globals of constants.
enum : int {
  kHead = D,
  kMasked = causal,
  kQueries = 64,
  kKeys = 128,
  kChunks = kHead / 8,
  kQueryColumn = kQueries * 128,  // bytes of 64 elements of each query
  kKeyColumn = kKeys * 128,
  kQueryTile = kQueries * kHead * 2,
  kKeyTile = kKeys * kHead * 2,
  kStatTile = kQueries * 8,
  kWeightTile = kKeys * kQueries * 2,
  kValuesAt = kKeyTile,
  kQueriesAt = 2 * kKeyTile,
  kGradientsAt = kQueriesAt + STAGES * kQueryTile,
  kWeightsAt = kGradientsAt + STAGES * kQueryTile,
  kStatsAt = kWeightsAt + 2 * kWeightTile,
  kBarriersAt = kStatsAt + STAGES * kStatTile
};
// Barriers, 8 bytes each.
enum : int { KeysFull = 0, Full = 1, Empty = Full + STAGES };

// --- Instructions.

__device__ __forceinline__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ u32 pack(float low, float high) {
  u32 both;
  asm("cvt.rn." TYPE "x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}

__device__ __forceinline__ float2 unpack(u32 both) {
#ifdef DTYPE_BF16
  return make_float2(__uint_as_float(both << 16), __uint_as_float(both & 0xffff0000u));
#else
  float low, high;
  asm("{.reg .b16 a, b; mov.b32 {a, b}, %2; cvt.f32.f16 %0, a; cvt.f32.f16 %1, b;}"
      : "=f"(low), "=f"(high)
      : "r"(both));
  return make_float2(low, high);
#endif
}

__device__ __forceinline__ void barrier_init(u32 barrier, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

__device__ __forceinline__ void barriers_are_ready() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ __forceinline__ void barrier_arrive(u32 barrier) {
  asm volatile("{ .reg .b64 t; mbarrier.arrive.shared::cta.b64 t, [%0]; }" ::"r"(barrier) : "memory");
}

__device__ __forceinline__ void barrier_expect(u32 barrier, u32 bytes) {
  asm volatile("{ .reg .b64 t; mbarrier.arrive.expect_tx.shared::cta.b64 t, [%0], %1; }" ::"r"(barrier), "r"(bytes)
               : "memory");
}

__device__ __forceinline__ void barrier_wait(u32 barrier, u32 phase) {
  u32 done;
  do {
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done)
                 : "r"(barrier), "r"(phase)
                 : "memory");
  } while (done == 0);
}

// Both teams: what they wrote to shared memory before is then seen by wgmma.
__device__ __forceinline__ void teams_sync() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  asm volatile("bar.sync 1, 256;" ::: "memory");
}
__device__ __forceinline__ void team_sync(int team) {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  asm volatile("bar.sync %0, 128;" ::"r"(2 + team) : "memory");
}

__device__ __forceinline__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
}
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
}

__device__ __forceinline__ void load_box(u32 to, const CUtensorMap* map, u32 barrier, int d, int head, int row, int b) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(to), "l"(map), "r"(barrier), "r"(d), "r"(head), "r"(row), "r"(b)
      : "memory");
}

__device__ __forceinline__ void load_bytes(u32 to, const void* from, u32 bytes, u32 barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier)
               : "memory");
}

__device__ __forceinline__ float4 load_shared(u32 address) {
  float4 x;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
               : "r"(address)
               : "memory");
  return x;
}

__device__ __forceinline__ void store_matrices(u32 address, const u32* x) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(x[0]), "r"(x[1]),
               "r"(x[2]), "r"(x[3])
               : "memory");
}

__device__ __forceinline__ void add_global(float* to, const float* x) {
  asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3])
               : "memory");
}

__device__ __forceinline__ u32 shared_address(const void* p) {
  return static_cast<u32>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ void products_begin() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void products_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int pending>
__device__ __forceinline__ void products_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}
// Keeps the compiler from moving reads of `c` across this point.
template <int n>
__device__ __forceinline__ void pin(float (&c)[n]) {
#pragma unroll
  for (int i = 0; i < n; ++i) asm volatile("" : "+f"(c[i])::"memory");
}

#define EIGHT(c, i)                                                                           \
  "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3]), "+f"(c[i + 4]), "+f"(c[i + 5]), \
      "+f"(c[i + 6]), "+f"(c[i + 7])
#define OPERANDS_64(c) EIGHT(c, 0), EIGHT(c, 8), EIGHT(c, 16), EIGHT(c, 24)
#define OPERANDS_128(c) OPERANDS_64(c), EIGHT(c, 32), EIGHT(c, 40), EIGHT(c, 48), EIGHT(c, 56)
#define REGISTERS_64                                                                                               \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, " \
  "%24, %25, %26, %27, %28, %29, %30, %31"
#define REGISTERS_128                                                                                               \
  REGISTERS_64 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, "  \
               "%51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define SHAPE(n) "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." TYPE "." TYPE

// c = (add ? c : 0) + a b, 64 by 64, both from shared memory; `along`: whether they lie along their rows of 64.
template <bool along>
__device__ __forceinline__ void multiply_shared(float (&c)[32], u64 a, u64 b, bool add) {
  if (along)
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %34, 0; " SHAPE(64) " {" REGISTERS_64 "}, %32, %33, p, 1, 1, 1, 1; }"
                 : OPERANDS_64(c)
                 : "l"(a), "l"(b), "r"(add ? 1 : 0));
  else
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %34, 0; " SHAPE(64) " {" REGISTERS_64 "}, %32, %33, p, 1, 1, 0, 0; }"
                 : OPERANDS_64(c)
                 : "l"(a), "l"(b), "r"(add ? 1 : 0));
}

// c += a b, where a is in registers and b, 16 rows of the head, in shared memory
__device__ __forceinline__ void multiply_kept(float (&c)[kHead / 2], const u32* a, u64 b) {
#if D == 64
  asm volatile(SHAPE(64) " {" REGISTERS_64 "}, {%32, %33, %34, %35}, %36, 1, 1, 1, 1;"
               : OPERANDS_64(c)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
#else
  asm volatile(SHAPE(128) " {" REGISTERS_128 "}, {%64, %65, %66, %67}, %68, 1, 1, 1, 1;"
               : OPERANDS_128(c)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
#endif
}

// --- Tiles.

// A tile with the 128-byte swizzle; 8 rows of 128 bytes follow each other. `columns` is the distance of its columns,
// which only an operand that lies along its rows needs.
__device__ __forceinline__ u64 describe(u32 address, u32 columns) {
  return 1ull << 62 | static_cast<u64>(1024 >> 4) << 32 | static_cast<u64>(columns >> 4) << 16 | (address >> 4);
}

// A transposition of 2 by 2 between lanes that differ in `bit`.
__device__ __forceinline__ void exchange(u32& low, u32& high, bool upper, int bit) {
  const u32 got = __shfl_xor_sync(0xffffffffu, upper ? low : high, bit);
  if (upper)
    low = got;
  else
    high = got;
}

// 16 rows of the head, of which a thread has rows lane / 4 and 8 below it. Four threads share a row, 2 elements of
// every 8; they swap until each has 8 in a row. `to`: the first of the 16 rows.
__device__ __forceinline__ void store_rows(uint4* to, long long stride, int rows, const float (&x)[kHead / 2],
                                           float factor) {
  const int lane = threadIdx.x % 32, quarter = lane % 4;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = lane / 4 + 8 * r;
#pragma unroll
    for (int i = 0; i < kHead / 32; ++i) {
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

// What a block works on.
struct Work {
  int b, hk, first_key, begin, blocks, steps, group, H, m_blocks;

  __device__ __forceinline__ Work(int H, int H_kv, int S_q, int S_kv, int m_blocks, int n_blocks)
      : group(H / H_kv), H(H), m_blocks(m_blocks) {
    const int heads = gridDim.x / n_blocks;
    const int bh = ORDER == ORDER_heads ? blockIdx.x / n_blocks : blockIdx.x % heads;
    const int block = ORDER == ORDER_heads ? blockIdx.x % n_blocks : blockIdx.x / heads;
    b = bh / H_kv, hk = bh - b * H_kv, first_key = block * kKeys;
    // Under the mask, the first tile of which a query sees a key.
    begin = kMasked ? min(m_blocks, max(0, first_key - S_kv + S_q) / kQueries) : 0;
    blocks = m_blocks - begin;
    steps = blocks * group;
  }
  __device__ __forceinline__ int head(int step) const { return hk * group + step / blocks; }
  __device__ __forceinline__ int block(int step) const { return begin + step % blocks; }
  __device__ __forceinline__ long long tile(int step) const {
    return (static_cast<long long>(b) * H + head(step)) * m_blocks + block(step);
  }
};

struct Maps {
  const CUtensorMap *q, *grad, *k, *v;
};

// One thread feeds both teams.
__device__ __forceinline__ void produce(const Work& work, const Maps& maps, const float2* stats, u32 memory) {
  if (work.steps == 0) return;
  const u32 barriers = memory + kBarriersAt;
  barrier_expect(barriers + 8 * KeysFull, 2 * kKeyTile);
#pragma unroll
  for (int column = 0; column < kHead / 64; ++column) {
    load_box(memory + column * kKeyColumn, maps.k, barriers + 8 * KeysFull, column * 64, work.hk, work.first_key, work.b);
    load_box(memory + kValuesAt + column * kKeyColumn, maps.v, barriers + 8 * KeysFull, column * 64, work.hk,
             work.first_key, work.b);
  }
  for (int step = 0; step < work.steps; ++step) {
    const int stage = step % STAGES, head = work.head(step), row = work.block(step) * kQueries;
    if (step >= STAGES) barrier_wait(barriers + 8 * (Empty + stage), step / STAGES % 2 ^ 1);
    const u32 full = barriers + 8 * (Full + stage);
    barrier_expect(full, 2 * kQueryTile + kStatTile);
#pragma unroll
    for (int column = 0; column < kHead / 64; ++column) {
      load_box(memory + kQueriesAt + stage * kQueryTile + column * kQueryColumn, maps.q, full, column * 64, head, row,
               work.b);
      load_box(memory + kGradientsAt + stage * kQueryTile + column * kQueryColumn, maps.grad, full, column * 64, head,
               row, work.b);
    }
    load_bytes(memory + kStatsAt + stage * kStatTile, stats + work.tile(step) * kQueries, kStatTile, full);
  }
}

__device__ __forceinline__ void consume(const Work& work, int team, u32 memory, float* sums, uint4* dk, uint4* dv,
                                        int H_kv, int S_q, int S_kv, float scale) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x % 128 / 32, thread = threadIdx.x % 128;
  const int mine = work.first_key + 64 * team + 16 * warp;  // this warp's first key
  const int key = mine + lane / 4, column = lane % 4 * 2, shift = S_kv - S_q;
  const u32 barriers = memory + kBarriersAt;
  const float scale2 = scale * 1.44269504f;
  float dk_sum[kHead / 2], dv_sum[kHead / 2];
#pragma unroll
  for (int i = 0; i < kHead / 2; ++i) dk_sum[i] = dv_sum[i] = 0.0f;
  if (work.steps > 0) barrier_wait(barriers + 8 * KeysFull, 0);

#pragma unroll 1
  for (int step = 0; step < work.steps; ++step) {
    const int stage = step % STAGES, first_query = work.block(step) * kQueries;
    const u32 queries = memory + kQueriesAt + stage * kQueryTile, gradients = memory + kGradientsAt + stage * kQueryTile;
    const u32 weights = memory + kWeightsAt + step % 2 * kWeightTile;
    float s[32], dp[32];
    barrier_wait(barriers + 8 * (Full + stage), step / STAGES % 2);
    products_begin();
#pragma unroll
    for (int inner = 0; inner < kHead / 16; ++inner)
      multiply_shared<false>(
          s, describe(memory + team * 64 * 128 + inner / 4 * kKeyColumn + inner % 4 * 32, 0),
          describe(queries + inner / 4 * kQueryColumn + inner % 4 * 32, 0), inner > 0);
    products_commit();
#pragma unroll
    for (int inner = 0; inner < kHead / 16; ++inner)
      multiply_shared<false>(
          dp, describe(memory + kValuesAt + team * 64 * 128 + inner / 4 * kKeyColumn + inner % 4 * 32, 0),
          describe(gradients + inner / 4 * kQueryColumn + inner % 4 * 32, 0), inner > 0);
    products_commit();
    products_wait<1>();
    pin(s);
    // Whether some pair of this tile must be left out.
    const bool masked = work.first_key + kKeys > S_kv || (kMasked && work.first_key + kKeys - 1 > first_query + shift);
    const u32 stats = memory + kStatsAt + stage * kStatTile;
    u32 p[16], ds[16];
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      const float4 stat = load_shared(stats + (8 * n + column) * 8);
      s[4 * n] = exp2_fast(fmaf(s[4 * n], scale2, -stat.x));
      s[4 * n + 1] = exp2_fast(fmaf(s[4 * n + 1], scale2, -stat.z));
      s[4 * n + 2] = exp2_fast(fmaf(s[4 * n + 2], scale2, -stat.x));
      s[4 * n + 3] = exp2_fast(fmaf(s[4 * n + 3], scale2, -stat.z));
    }
    if (masked) {
#pragma unroll
      for (int i = 0; i < 32; ++i) {
        const int j = key + i % 4 / 2 * 8, query = first_query + i / 4 * 8 + column + i % 2;
        if (j >= S_kv || (kMasked && j > query + shift)) s[i] = 0.0f;
      }
    }
#pragma unroll
    for (int i = 0; i < 16; ++i) p[i] = pack(s[2 * i], s[2 * i + 1]);
    if (EARLY) {
      products_begin();
#pragma unroll
      for (int inner = 0; inner < 4; ++inner)
        multiply_kept(dv_sum, p + 4 * inner, describe(gradients + inner * 2048, kQueryColumn));
      products_commit();
      products_wait<1>();
    } else {
      products_wait<0>();
    }
    pin(dp);
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      const float4 stat = load_shared(stats + (8 * n + column) * 8);
      dp[4 * n] = s[4 * n] * (dp[4 * n] - stat.y);
      dp[4 * n + 1] = s[4 * n + 1] * (dp[4 * n + 1] - stat.w);
      dp[4 * n + 2] = s[4 * n + 2] * (dp[4 * n + 2] - stat.y);
      dp[4 * n + 3] = s[4 * n + 3] * (dp[4 * n + 3] - stat.w);
    }
#pragma unroll
    for (int i = 0; i < 16; ++i) ds[i] = pack(dp[2 * i], dp[2 * i + 1]);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = 64 * team + 16 * warp + lane % 16, chunk = 2 * i + lane / 16;
      store_matrices(weights + row * 128 + (chunk ^ (row % 8)) * 16, ds + 4 * i);
    }
    products_begin();
    if (!EARLY) {
#pragma unroll
      for (int inner = 0; inner < 4; ++inner)
        multiply_kept(dv_sum, p + 4 * inner, describe(gradients + inner * 2048, kQueryColumn));
    }
#pragma unroll
    for (int inner = 0; inner < 4; ++inner)
      multiply_kept(dk_sum, ds + 4 * inner, describe(queries + inner * 2048, kQueryColumn));
    products_commit();
    float dq[32];
    if (kHead == 128)
      teams_sync();
    else
      team_sync(team);
    products_begin();
    // 64 queries by 64 features: half of the head, or all of it from half of the keys
#pragma unroll
    for (int inner = 0; inner < (kHead == 128 ? 8 : 4); ++inner)
      multiply_shared<true>(dq, describe(weights + (kHead == 128 ? 0 : team * 8192) + inner * 2048, kWeightTile),
                            describe(memory + (kHead == 128 ? team * kKeyColumn : team * 8192) + inner * 2048, kKeyColumn),
                            inner > 0);
    products_commit();
    products_wait<0>();
    pin(dq);
    pin(dk_sum);
    pin(dv_sum);
    barrier_arrive(barriers + 8 * (Empty + stage));  // every thread: racecheck counts only the reads of those that arrive
    float* const to = sums + work.tile(step) * (kQueries * kHead) + (kHead == 128 ? team * 4096 : 0);
#pragma unroll
    for (int n = 0; n < 8; ++n) add_global(to + (n * 128 + thread) * 4, dq + 4 * n);
  }

  const long long stride = static_cast<long long>(H_kv) * kChunks;
  const long long at = (static_cast<long long>(work.b) * S_kv * H_kv + work.hk) * kChunks + mine * stride;
  store_rows(dk + at, stride, S_kv - mine, dk_sum, scale);
  store_rows(dv + at, stride, S_kv - mine, dv_sum, 1.0f);
}

}  // namespace

// delta of each query, and its lse for powers of two. A block has 64 queries of a head.
extern "C" __global__ void __launch_bounds__(256)
    prepare(const uint4* o, const float* lse, const uint4* grad, float2* stats, int H, int S_q, int m_blocks) {
  const int bh = blockIdx.x / m_blocks, b = bh / H, h = bh - b * H, block = blockIdx.x % m_blocks;
  const int chunk = threadIdx.x % kChunks;
  for (int row = threadIdx.x / kChunks; row < kQueries; row += 256 / kChunks) {
    const int i = block * kQueries + row;
    float delta = 0.0f;
    if (i < S_q) {
      const long long at = ((static_cast<long long>(b) * S_q + i) * H + h) * kChunks + chunk;
      const uint4 x = o[at], y = grad[at];
      const u32 left[4] = {x.x, x.y, x.z, x.w}, right[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float2 l = unpack(left[e]), r = unpack(right[e]);
        delta = fmaf(l.x, r.x, fmaf(l.y, r.y, delta));
      }
    }
#pragma unroll
    for (int bit = kChunks / 2; bit > 0; bit /= 2) delta += __shfl_xor_sync(0xffffffffu, delta, bit);
    if (chunk != 0) continue;
    const float infinity = __int_as_float(0x7f800000);
    const float base = i < S_q ? lse[static_cast<long long>(bh) * S_q + i] : -infinity;
    stats[static_cast<long long>(blockIdx.x) * kQueries + row] =
        make_float2(base == -infinity ? infinity : base * 1.44269504f, delta);
  }
}

extern "C" __global__ void __launch_bounds__(384, 1)
    attention_backward(const __grid_constant__ CUtensorMap map_q, const __grid_constant__ CUtensorMap map_do,
                       const __grid_constant__ CUtensorMap map_k, const __grid_constant__ CUtensorMap map_v,
                       const float2* stats, float* sums, uint4* dk, uint4* dv, int H, int H_kv, int S_q, int S_kv,
                       int m_blocks, int n_blocks, float scale) {
  extern __shared__ uint4 shared[];
  const u32 memory = (shared_address(shared) + 1023) / 1024 * 1024;
  const Maps maps{&map_q, &map_do, &map_k, &map_v};
  const Work work(H, H_kv, S_q, S_kv, m_blocks, n_blocks);
  if (threadIdx.x == 0) {
    const u32 barriers = memory + kBarriersAt;
    barrier_init(barriers + 8 * KeysFull, 1);
    for (int stage = 0; stage < STAGES; ++stage) {
      barrier_init(barriers + 8 * (Full + stage), 1);
      barrier_init(barriers + 8 * (Empty + stage), 256);
    }
    barriers_are_ready();
  }
  __syncthreads();
  const int warpgroup = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);
  if (warpgroup == 0) {
    give_registers();
    if (threadIdx.x == 0) produce(work, maps, stats, memory);
  } else {
    take_registers();
    consume(work, warpgroup - 1, memory, sums, dk, dv, H_kv, S_q, S_kv, scale);
  }
}

// Sums of dq to the output; they lie as the warps' fragments.
extern "C" __global__ void __launch_bounds__(256)
    finish(const float* sums, uint4* dq, int H, int S_q, int m_blocks, float scale) {
  const int bh = blockIdx.x / m_blocks, b = bh / H, h = bh - b * H, block = blockIdx.x % m_blocks;
  const float* const from = sums + static_cast<long long>(blockIdx.x) * (kQueries * kHead);
  const int chunk = threadIdx.x % kChunks;
  for (int row = threadIdx.x / kChunks; row < kQueries; row += 256 / kChunks) {
    const int i = block * kQueries + row;
    if (i >= S_q) return;
    const int thread = row / 16 * 32 + row % 8 * 4;
    const float* const at = from + (chunk * 128 + thread) * 4 + row % 16 / 8 * 2;
    u32 x[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float2 two = *reinterpret_cast<const float2*>(at + 4 * e);
      x[e] = pack(two.x * scale, two.y * scale);
    }
    dq[((static_cast<long long>(b) * S_q + i) * H + h) * kChunks + chunk] = make_uint4(x[0], x[1], x[2], x[3]);
  }
}
