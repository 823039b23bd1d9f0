/*--- cultivar
name: attention_exact_peaks
task: attention_forward
target: cuda
about: "Hopper: wgmma, TMA and mbarriers; tiles flow into each other; weights need a maximum only where one of them is a great part of its row, and then it is exactly 1."
requires: "dtype != f32 && (D == 64 || D == 128 || D == 256) && scale > 0"
tunables:
  # Keys in a tile: without the mask, with it, and where D is 256
  BLOCK_N: {values: [64, 80, 96, 112, 128, 144], default: 96}
  BLOCK_N_CAUSAL: {values: [64, 80, 96, 112, 128, 144], default: 96}
  TEAMS: {values: [2, 3], default: 3}  # of 64 queries, where D is 64
  BLOCK_N_WIDE: {values: [32, 48], default: 48}
  BLOCK_N_TWO: {values: [96, 112, 128, 144], default: 128}  # heads of 64 with two teams: tiles of 128 queries pad less
  KEY_STAGES: {values: [2, 3], default: 2}  # tiles of K in flight, and of V; 2 where D is 256
  KEY_STAGES_CAUSAL: {values: [2, 3], default: 2}
  VALUE_STAGES: {values: [2, 3], default: 2}
  VALUE_STAGES_CAUSAL: {values: [2, 3], default: 3}
  # Both teams take turns at the tensor cores; who is next is told before so many of the last products (16 keys of P V
  # each) are issued
  TURNS: {values: [0, 1], default: 1}
  TURNS_CAUSAL: {values: [0, 1], default: 0}
  EARLY: {values: [0, 1, 2, 3], default: 0}
  # Tiles for a block: every n-th; the next whenever it is free
  SCHEDULE: {values: [strided, ticket], default: strided}
  SCHEDULE_CAUSAL: {values: [strided, ticket], default: ticket}
  QUERIES: {values: [shared, half, registers], default: half}  # where the tensor cores read Q from (half: both); shared where D is 256
  QUERIES_CAUSAL: {values: [shared, half, registers], default: half}
  PLACES: {values: [1, 2], default: 1}  # of Q in shared memory, where registers have all of it
  PAIRS: {values: [0, 1], default: 0}  # two blocks of a cluster share each tile of K and V: without the mask, with it
  PAIRS_CAUSAL: {values: [0, 1], default: 0}
  SECTION_MB: {values: [8, 16, 32, 64], default: 8}  # causal: K and V of the heads worked on at a time
  # A tile is searched for a new maximum if one half of a thread's weights exceeds half of the other (or all of them together
  # exceed) 1 / PEAK of the thread's sum so far
  WATCH: {values: [halves, all], default: all}
  PEAK: {values: [1, 2, 4, 8], default: 1}
  HEAVY: {values: [4, 8, 16, 32], default: 4}  # a weight that is less than 1 / HEAVY of its row so far may be rounded
  SPLIT: {values: [1, 4, 8, 16, 32], default: 1}  # without the mask: parts of the keys, for each tile of a last round that few blocks have
constraints:
  - "smem <= smem_max"
  - "3 * keys / 4 + D / 2 + 24 + held <= (teams == 3 ? 160 : 240)"  # registers: S, P, O, Q
specialize: [D, causal, dtype, paired, teams, fold]
let:
  group: "H / H_kv"
  # With the mask: heads of a group whose queries are in one tile, the head being the lowest part of the number of a row
  fold: "causal && D == 64 ? (group == 2 ? 2 : (group == 4 ? 4 : (group == 8 ? 8 : (group == 16 ? 16 : 1)))) : 1"
  team_queries: "floor(64 / fold)"  # positions
  warp_queries: "floor(16 / fold)"
  all_heads: "floor(B * H / fold)"
  teams: "D == 64 ? (3072 * ceil_div(S_q * fold, 192) > 2176 * ceil_div(S_q * fold, 128) ? 2 : TEAMS) : 2"  # 192 queries, unless they pad 1 / 16 more than 128
  threads: "128 * (teams + 1)"
  keys: "D == 256 ? BLOCK_N_WIDE : (D == 64 && teams == 2 ? BLOCK_N_TWO : (causal ? BLOCK_N_CAUSAL : BLOCK_N))"
  stages: "D == 256 ? 4 : (causal ? KEY_STAGES_CAUSAL + VALUE_STAGES_CAUSAL : KEY_STAGES + VALUE_STAGES)"
  held: "D == 256 ? 0 : D == 64 && teams == 2 ? D / 4 : causal ? (QUERIES_CAUSAL == QUERIES_CAUSAL_registers ? D / 4 : (QUERIES_CAUSAL == QUERIES_CAUSAL_half ? D / 8 : 0))
       : (QUERIES == QUERIES_registers ? D / 4 : (QUERIES == QUERIES_half ? D / 8 : 0))"
  smem: "(64 * teams * (held == D / 4 ? PLACES : 2) + stages * keys) * D * 2 + 1536"  # 1024 to align, 512 for barriers
  m_blocks: "ceil_div(S_q * fold, 64 * teams)"
  paired: "D != 256 && (causal ? PAIRS_CAUSAL && fold == 1 && teams == 2 && keys == 128 && S_q % 256 == 0 && S_q <= S_kv : PAIRS && m_blocks % 2 == 0)"
  wide: "1 + paired"  # blocks that work on neighbours: from here on such two are one
  m_tiles: "m_blocks / wide"
  tiles: "all_heads * m_tiles"
  blocks: "floor(num_sms / wide)"
  left: "tiles % blocks"
  parted: "!causal && left * SPLIT <= blocks && SPLIT <= ceil_div(S_kv, keys) ? left : 0"
  whole: "SPLIT == 1 ? tiles : tiles - parted"
  units: "whole + (tiles - whole) * SPLIT"  # of work: a tile, or a part of one
  fitting: "floor(SECTION_MB * 1048576 / (4 * S_kv * D)) * floor(group / fold)"
  section: "causal ? max(1, min(fitting, all_heads)) : 1"
workspace:
  ticket: {bytes: "64 + 4 * teams * (tiles - whole) * wide", zero: true}  # and who has come, by parted tile and team
  parts: {bytes: "max(64, (units - whole) * wide * (D / 2 + 4) * 512 * teams)", zero: false}
tensor_maps:
  map_q: {tensor: q, sizes: [D, H, S_q, B], strides: [D, H*D, S_q*H*D],
          box: [64, fold, team_queries, 1], swizzle: 128B, l2_promotion: 128B}
  map_k: {tensor: k, sizes: [D, H_kv, S_kv, B], strides: [D, H_kv*D, S_kv*H_kv*D],
          box: [64, 1, keys, 1], swizzle: 128B, l2_promotion: 256B}
  map_v: {tensor: v, sizes: [D, H_kv, S_kv, B], strides: [D, H_kv*D, S_kv*H_kv*D],
          box: [64, 1, keys, 1], swizzle: 128B, l2_promotion: 256B}
  map_o: {tensor: o, sizes: [D, H, S_q, B], strides: [D, H*D, S_q*H*D], box: [64, fold, warp_queries, 1], swizzle: 128B}
launch:
  - kernel: attention_forward
    grid: ["min(blocks, units) * wide", 1, 1]
    cluster: [wide, 1, 1]
    block: [threads, 1, 1]
    shared: smem
    args: [map_q, map_k, map_v, map_o, o, lse, ticket, parts, H, group, S_q, S_kv, m_tiles, tiles, whole, units, section, scale]
---*/

// A tile is 128 queries of one head. The first warpgroup gives its registers away; three threads of it copy, for a tile after
// the other, K and V, the last keys first, into two rings of buffers, and the queries. The other two, teams, have 64
// queries each: one keeps S = Q K^T, P and O in registers, and P goes into P V from there. Shared tiles are columns of
// 64 elements with TMA's 128-byte swizzle; V is read transposed by the tensor core itself. TMA fills what lies past the
// last key with zeros and does not write past the last query.
//
// Q has two places. While a tile is attended to from one of them, the next one's queries come into the other; the last
// P V of a tile is issued together with the first Q K^T of the next, so that the tensor cores never drain between
// tiles, and O leaves through the place of the queries that are done with. What a team's loops depend on is known to be the
// same in all threads of a warp (`uniform`): descriptors of products then stay in uniform registers.
//
// Two blocks of a cluster, a pair, have neighbouring tiles and share those of K and V: each fetches a half, for both, as
// soon as all four teams have left the stage. With the mask the second block sees one tile of keys more than the first,
// which passes that stage by, and draws tickets for both.

#if D == 256
#define KEYS BLOCK_N_WIDE
#define KEY_TILES 2
#define VALUE_TILES 2
#define HELD 0
#elif causal
#define KEYS BLOCK_N_CAUSAL
#define KEY_TILES KEY_STAGES_CAUSAL
#define VALUE_TILES VALUE_STAGES_CAUSAL
#define HELD (QUERIES_CAUSAL == QUERIES_CAUSAL_shared ? 0 : QUERIES_CAUSAL == QUERIES_CAUSAL_half ? D / 8 : D / 4)
#else
#define KEYS BLOCK_N
#define KEY_TILES KEY_STAGES
#define VALUE_TILES VALUE_STAGES
#define HELD (QUERIES == QUERIES_shared ? 0 : QUERIES == QUERIES_half ? D / 8 : D / 4)
#endif
#if D == 64 && teams == 2  // registers to spare
#undef KEYS
#undef HELD
#define KEYS BLOCK_N_TWO
#define HELD (D / 4)
#endif
#ifdef DTYPE_BF16
#define TYPE "bf16"
#define GREATEST 1e30f  // weights of a thread, together
#else
#define TYPE "f16"
#define GREATEST 32768.0f
#endif

struct alignas(64) CUtensorMap {
  unsigned long long opaque[16];
};
using u32 = unsigned;
using u64 = unsigned long long;

namespace {

// Enums, because NVRTC would make writable device globals of constants.
enum : int {
  kTeams = teams,
  kTurns = causal ? TURNS_CAUSAL : TURNS,
  kTickets = causal ? SCHEDULE_CAUSAL == SCHEDULE_CAUSAL_ticket : SCHEDULE == SCHEDULE_ticket,
  kRotates = kTeams == 3 && !kTickets,  // tiles with idle teams are to reach all blocks
  kFold = fold,                  // heads in a tile: row kFold * position + head
  kTeamQueries = 64 / kFold,     // positions of a team
  kHead = D,
  kMasked = causal,
  kColumnQ = 64 * 128,  // bytes of 64 elements of each query of a team
  kColumn = KEYS * 128,
  kTileQ = 64 * kHead * 2,
  kTile = KEYS * kHead * 2,
  kPlaces = HELD == D / 4 ? PLACES : 2,  // of Q
  kPaired = paired,
  kStaggered = paired && causal,  // of a pair's queries the second block's see one tile of keys more: their first
  kKeysAt = kPlaces * kTeams * kTileQ,
  kValuesAt = kKeysAt + KEY_TILES * kTile,
  kBarriersAt = kValuesAt + VALUE_TILES * kTile,
  kHeld = HELD,  // registers with queries
  kParts = causal ? 1 : SPLIT,
  kPart = (D / 2 + 4) * 128  // floats of a team
};
// Barriers, 8 bytes each, and behind them three slots for tiles: one that is left, one attended to, the next, 32 bytes each.
enum : int {
  QFull = 0,  // by place and team
  QWanted = 2 * kTeams,
  KFull = 4 * kTeams,
  KEmpty = KFull + KEY_TILES,
  VFull = KEmpty + KEY_TILES,
  VEmpty = VFull + VALUE_TILES,
  TileFull = VEmpty + VALUE_TILES,
  TileEmpty = TileFull + 3,
  Slots = TileEmpty + 3,
  Came = Slots + 12,    // by team, 4 bytes each
  Drawn = Came + 2,     // of a pair: tickets that the first block draws for both come in letters of 4 bytes
  Letters = Drawn + 8,
  kLetters = 8  // more than the tiles that the first block's feeder can be ahead
};

// Known by the compiler to be the same in all threads of the warp.
__device__ __forceinline__ int uniform(int x) {
  return __shfl_sync(0xffffffffu, x, 0);
}

__device__ __forceinline__ float minus_infinity() {
  return __int_as_float(0xff800000);
}

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

__device__ __forceinline__ u32 pack(float low, float high) {
  u32 both;
  asm("cvt.rn." TYPE "x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}

// --- Barriers ---

__device__ __forceinline__ void barrier_init(u32 barrier, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

__device__ __forceinline__ void barrier_arrive(u32 barrier) {
  asm volatile("{ .reg .b64 t; mbarrier.arrive.shared::cta.b64 t, [%0]; }" ::"r"(barrier) : "memory");
}

// At the barrier of a block of the pair. No release at the cluster's scope: ptxas makes a memory barrier of it, which costs 30 %
// of the time, and what has to be over is the tensor cores' reading, which `wgmma.wait_group` waited for.
__device__ __forceinline__ void barrier_arrive_at(u32 barrier, u32 rank) {
  asm volatile(
      "{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [there]; }" ::"r"(barrier), "r"(rank)
      : "memory");
}

__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}

__device__ __forceinline__ u32 rank_in_pair() {
  return kPaired ? blockIdx.x % 2 : 0;
}

__device__ __forceinline__ void barrier_expect(u32 barrier, u32 bytes) {
  asm volatile("{ .reg .b64 t; mbarrier.arrive.expect_tx.shared::cta.b64 t, [%0], %1; }" ::"r"(barrier),
               "r"(bytes)
               : "memory");
}

__device__ __forceinline__ void barrier_wait(u32 barrier, u32 phase) {
  u32 done;
  do {
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
        : "=r"(done)
        : "r"(barrier), "r"(phase)
        : "memory");
  } while (done == 0);
}

__device__ __forceinline__ void named_sync(int name, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(name), "r"(threads) : "memory");
}

__device__ __forceinline__ void named_arrive(int name, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(name), "r"(threads) : "memory");
}

template <int stages>
struct Ring {
  int stage = 0;
  u32 phase = 0;
  __device__ __forceinline__ void advance() {
    if (++stage == stages) stage = 0, phase ^= 1;
  }
};

// --- Copies ---

__device__ __forceinline__ void load_box(u32 to, const CUtensorMap* map, u32 barrier, int d, int head,
                                         int row, int b) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(to), "l"(map), "r"(barrier), "r"(d), "r"(head), "r"(row), "r"(b)
      : "memory");
}

// To both blocks of a pair, at the same place, and told to the same barrier of each.
__device__ __forceinline__ void load_box_of_two(u32 to, const CUtensorMap* map, u32 barrier, int d, int head,
                                                int row, int b) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%3, %4, %5, %6}], [%2], %7;" ::"r"(to), "l"(map), "r"(barrier), "r"(d), "r"(head), "r"(row), "r"(b),
      "h"(static_cast<unsigned short>(3))
      : "memory");
}

__device__ __forceinline__ void store_box(const CUtensorMap* map, u32 from, int d, int head, int row, int b) {
  asm volatile(
      "cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(map),
      "r"(from), "r"(d), "r"(head), "r"(row), "r"(b)
      : "memory");
}

__device__ __forceinline__ void load_matrices(u32* to, u32 from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(from)
               : "memory");
}

// --- Products ---

// A tile with the 128-byte swizzle; 8 rows of 128 bytes follow each other. `columns` is the distance of its
// columns, which only an operand that lies along its rows (V) needs.
__device__ __forceinline__ u64 describe(u32 address, u32 columns) {
  return 1ull << 62 | static_cast<u64>(1024 >> 4) << 32 | static_cast<u64>(columns >> 4) << 16 |
         address >> 4;
}

// Register lists by width, since the text of an instruction names each register.
#define JOINED(a, b) a##b
#define JOIN(a, b) JOINED(a, b)
#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#define EIGHT(c, i)                                                                           \
  "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3]), "+f"(c[i + 4]), "+f"(c[i + 5]), \
      "+f"(c[i + 6]), "+f"(c[i + 7])
#define REGISTERS_16 "%0, %1, %2, %3, %4, %5, %6, %7"
#define REGISTERS_32 REGISTERS_16 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define REGISTERS_48 REGISTERS_32 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define REGISTERS_64 REGISTERS_48 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define REGISTERS_80 REGISTERS_64 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define REGISTERS_96 REGISTERS_80 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define REGISTERS_112 REGISTERS_96 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define REGISTERS_128 REGISTERS_112 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define REGISTERS_144 REGISTERS_128 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define REGISTERS_160 REGISTERS_144 ", %72, %73, %74, %75, %76, %77, %78, %79"
#define REGISTERS_176 REGISTERS_160 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define REGISTERS_192 REGISTERS_176 ", %88, %89, %90, %91, %92, %93, %94, %95"
#define REGISTERS_208 REGISTERS_192 ", %96, %97, %98, %99, %100, %101, %102, %103"
#define REGISTERS_224 REGISTERS_208 ", %104, %105, %106, %107, %108, %109, %110, %111"
#define REGISTERS_240 REGISTERS_224 ", %112, %113, %114, %115, %116, %117, %118, %119"
#define REGISTERS_256 REGISTERS_240 ", %120, %121, %122, %123, %124, %125, %126, %127"
#define OPERANDS_16(c) EIGHT(c, 0)
#define OPERANDS_32(c) OPERANDS_16(c), EIGHT(c, 8)
#define OPERANDS_48(c) OPERANDS_32(c), EIGHT(c, 16)
#define OPERANDS_64(c) OPERANDS_48(c), EIGHT(c, 24)
#define OPERANDS_80(c) OPERANDS_64(c), EIGHT(c, 32)
#define OPERANDS_96(c) OPERANDS_80(c), EIGHT(c, 40)
#define OPERANDS_112(c) OPERANDS_96(c), EIGHT(c, 48)
#define OPERANDS_128(c) OPERANDS_112(c), EIGHT(c, 56)
#define OPERANDS_144(c) OPERANDS_128(c), EIGHT(c, 64)
#define OPERANDS_160(c) OPERANDS_144(c), EIGHT(c, 72)
#define OPERANDS_176(c) OPERANDS_160(c), EIGHT(c, 80)
#define OPERANDS_192(c) OPERANDS_176(c), EIGHT(c, 88)
#define OPERANDS_208(c) OPERANDS_192(c), EIGHT(c, 96)
#define OPERANDS_224(c) OPERANDS_208(c), EIGHT(c, 104)
#define OPERANDS_240(c) OPERANDS_224(c), EIGHT(c, 112)
#define OPERANDS_256(c) OPERANDS_240(c), EIGHT(c, 120)
#define AFTER_16(use) use("%8", "%9", "%10", "%11", "%12", "%13")
#define AFTER_32(use) use("%16", "%17", "%18", "%19", "%20", "%21")
#define AFTER_48(use) use("%24", "%25", "%26", "%27", "%28", "%29")
#define AFTER_64(use) use("%32", "%33", "%34", "%35", "%36", "%37")
#define AFTER_80(use) use("%40", "%41", "%42", "%43", "%44", "%45")
#define AFTER_96(use) use("%48", "%49", "%50", "%51", "%52", "%53")
#define AFTER_112(use) use("%56", "%57", "%58", "%59", "%60", "%61")
#define AFTER_128(use) use("%64", "%65", "%66", "%67", "%68", "%69")
#define AFTER_144(use) use("%72", "%73", "%74", "%75", "%76", "%77")
#define AFTER_160(use) use("%80", "%81", "%82", "%83", "%84", "%85")
#define AFTER_176(use) use("%88", "%89", "%90", "%91", "%92", "%93")
#define AFTER_192(use) use("%96", "%97", "%98", "%99", "%100", "%101")
#define AFTER_208(use) use("%104", "%105", "%106", "%107", "%108", "%109")
#define AFTER_224(use) use("%112", "%113", "%114", "%115", "%116", "%117")
#define AFTER_240(use) use("%120", "%121", "%122", "%123", "%124", "%125")
#define AFTER_256(use) use("%128", "%129", "%130", "%131", "%132", "%133")

#define SHAPE(n) \
  "wgmma.mma_async.sync.aligned.m64n" TEXT(n) "k16.f32." TYPE "." TYPE " {" JOIN(REGISTERS_, n) "}, "
#define SHARED_OPERANDS(a, b, s, x, y, z) a ", " b ", p, 1, 1, 0, 0; }"
#define SHARED_CHOICE(a, b, s, x, y, z) "{ .reg .pred p; setp.ne.b32 p, " s ", 0; "
#define QUERY_OPERANDS(a0, a1, a2, a3, b, s) "{" a0 ", " a1 ", " a2 ", " a3 "}, " b ", p, 1, 1, 0; }"
#define QUERY_CHOICE(a0, a1, a2, a3, b, s) "{ .reg .pred p; setp.ne.b32 p, " s ", 0; "
#define WEIGHT_OPERANDS(a0, a1, a2, a3, b, s) "{" a0 ", " a1 ", " a2 ", " a3 "}, " b ", p, 1, 1, 1; }"
#define REGISTER_OPERANDS(a0, a1, a2, a3, b, x) "{" a0 ", " a1 ", " a2 ", " a3 "}, " b ", 1, 1, 1, 1;"

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

// S = Q K^T, 64 queries and KEYS keys.
__device__ __forceinline__ void multiply_qk(float (&s)[KEYS / 2], u64 q, u64 k) {
#pragma unroll
  for (int step = 0; step < kHead / 16; ++step) {
    const u64 a = q + (step / 4 * kColumnQ + step % 4 * 32) / 16;
    const u64 b = k + (step / 4 * kColumn + step % 4 * 32) / 16;
    asm volatile(JOIN(AFTER_, KEYS)(SHARED_CHOICE) SHAPE(KEYS) JOIN(AFTER_, KEYS)(SHARED_OPERANDS)
                 : JOIN(OPERANDS_, KEYS)(s)
                 : "l"(a), "l"(b), "r"(step == 0 ? 0 : 1));
  }
}

// The same with Q, or its first half, in registers.
template <int steps>
__device__ __forceinline__ void multiply_qk(float (&s)[KEYS / 2], const u32 (&q)[steps], u64 shared_q, u64 k) {
#pragma unroll
  for (int step = 0; step < kHead / 16; ++step) {
    const u64 a = shared_q + (step / 4 * kColumnQ + step % 4 * 32) / 16;
    const u64 b = k + (step / 4 * kColumn + step % 4 * 32) / 16;
    if (4 * step >= steps)
      asm volatile(JOIN(AFTER_, KEYS)(SHARED_CHOICE) SHAPE(KEYS) JOIN(AFTER_, KEYS)(SHARED_OPERANDS)
                   : JOIN(OPERANDS_, KEYS)(s)
                   : "l"(a), "l"(b), "r"(1));
    else
      asm volatile(JOIN(AFTER_, KEYS)(QUERY_CHOICE) SHAPE(KEYS) JOIN(AFTER_, KEYS)(QUERY_OPERANDS)
                   : JOIN(OPERANDS_, KEYS)(s)
                   : "r"(q[4 * step]), "r"(q[4 * step + 1]), "r"(q[4 * step + 2]), "r"(q[4 * step + 3]), "l"(b),
                     "r"(step == 0 ? 0 : 1));
  }
}

// O += P V, of 16 * `to` keys from 16 * `from` on; the first one of all says whether there is something to add to.
template <int from, int to>
__device__ __forceinline__ void multiply_pv(float (&o)[kHead / 2], const u32 (&p)[KEYS / 4], u64 v, u32 adds) {
#pragma unroll
  for (int step = from; step < to; ++step) {
    const u64 b = v + step * 2048 / 16;
    if (step == 0) {
      asm volatile(JOIN(AFTER_, D)(QUERY_CHOICE) SHAPE(D) JOIN(AFTER_, D)(WEIGHT_OPERANDS)
                   : JOIN(OPERANDS_, D)(o)
                   : "r"(p[0]), "r"(p[1]), "r"(p[2]), "r"(p[3]), "l"(b), "r"(adds));
      continue;
    }
    asm volatile(SHAPE(D) JOIN(AFTER_, D)(REGISTER_OPERANDS)
                 : JOIN(OPERANDS_, D)(o)
                 : "r"(p[4 * step]), "r"(p[4 * step + 1]), "r"(p[4 * step + 2]), "r"(p[4 * step + 3]),
                   "l"(b));
  }
}

// --- Tiles ---

struct Shape {
  int H, group, S_q, S_kv, m_tiles, whole, units, section;
};

struct Tile {
  int index;        // shape.units or more: there is none
  int b, h, first;  // first head, and position of the first query
  int from = 0;     // tile of keys with which it begins
  int blocks;       // tiles of keys that some query of it sees

  Tile() = default;
  // Sections of heads one after the other; in each the last queries, which see most, go first.
  __device__ __forceinline__ Tile(int number, const Shape& shape, int heads) : index(number) {
    if (index >= shape.units) return;
    const int part = index - shape.whole;
    if (kParts > 1 && part >= 0) number = shape.whole + part / kParts;
    const int each = shape.section * shape.m_tiles, section = number / each, rest = number - section * each;
    const int wide = min(shape.section, heads - section * shape.section);
    const int m = rest / wide, bh = section * shape.section + rest - m * wide;
    const int folded = shape.H / kFold;  // heads, those of a tile being one
    b = bh / folded, h = (bh - b * folded) * kFold;
    first = ((shape.m_tiles - 1 - m) * (1 + kPaired) + rank_in_pair()) * kTeamQueries * kTeams;
    int end = shape.S_kv;
    if (kMasked) end = min(end, min(first + kTeamQueries * kTeams, shape.S_q) + shape.S_kv - shape.S_q);
    blocks = kMasked ? (max(end, 1) + KEYS - 1) / KEYS : (end + KEYS - 1) / KEYS;  // one at least, even if no query sees it
    if (kParts > 1 && part >= 0) {
      from = part % kParts * blocks / kParts;
      blocks = (part % kParts + 1) * blocks / kParts - from;
    }
  }
};

struct Maps {
  const CUtensorMap *q, *k, *v, *o;
};

// A number for the second block of a pair, and the barrier there that tells of it.
__device__ __forceinline__ void send_letter(u32 place, u32 barrier, u32 number) {
  asm volatile(
      "{ .reg .b32 there, then; mapa.shared::cluster.u32 there, %0, 1; mapa.shared::cluster.u32 then, %1, 1;\n"
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [there], %2, [then]; }" ::"r"(place), "r"(barrier), "r"(number)
      : "memory");
}

// The stages of K, or of V, that a tile goes through.
__device__ __forceinline__ int stages_of(const Tile& tile) {
  return tile.blocks + (kStaggered && rank_in_pair() == 0);
}

// A tile of keys, of K or V. Blocks of a pair fetch half of it each, for both.
__device__ __forceinline__ void load_tile(u32 to, const CUtensorMap* map, u32 barrier, const Tile& tile,
                                          int head, int block) {
  if (kStaggered && block >= tile.blocks) {  // the other block's alone
    barrier_arrive(barrier);
    return;
  }
  barrier_expect(barrier, kTile);
  const int key = (tile.from + block) * KEYS;
  const bool alone = !kPaired || (kStaggered && rank_in_pair() == 1 && block == tile.blocks - 1);
  if (alone) {
#pragma unroll
    for (int column = 0; column < kHead / 64; ++column)
      load_box(to + column * kColumn, map, barrier, column * 64, head, key, tile.b);
  } else {
#pragma unroll
    for (int i = 0; i < kHead / 64; i += 2) {
      const int column = i + rank_in_pair();
      if (column < kHead / 64)
        load_box_of_two(to + column * kColumn, map, barrier, column * 64, head, key, tile.b);
    }
  }
}

// The tile that the producer put into a slot.
__device__ __forceinline__ Tile read_tile(u32 memory, int slot) {
  const u32 place = memory + kBarriersAt + 8 * Slots + 32 * slot;
  Tile tile;
  asm volatile("ld.shared.v4.s32 {%0, %1, %2, %3}, [%4];" : "=r"(tile.index), "=r"(tile.b), "=r"(tile.h), "=r"(tile.first) : "r"(place) : "memory");
  asm volatile("ld.shared.v2.s32 {%0, %1}, [%2 + 16];" : "=r"(tile.from), "=r"(tile.blocks) : "r"(place) : "memory");
  return tile;
}

// The first of three threads that feed the teams: with K. It deals the tiles out, too.
__device__ __forceinline__ void send_keys(const Maps& maps, const Shape& shape, int heads, u32 memory, u32* ticket) {
  const u32 barriers = memory + kBarriersAt;
  const auto barrier = [&](int name, int index) { return barriers + 8 * (name + index); };
  Ring<KEY_TILES> keys;
  Ring<3> slots;
  const auto publish = [&](const Tile& tile) {
    barrier_wait(barrier(TileEmpty, slots.stage), slots.phase ^ 1);
    const u32 slot = barriers + 8 * Slots + 32 * slots.stage;
    asm volatile("st.shared.v4.s32 [%0], {%1, %2, %3, %4};" ::"r"(slot), "r"(tile.index), "r"(tile.b), "r"(tile.h), "r"(tile.first) : "memory");
    asm volatile("st.shared.v2.s32 [%0 + 16], {%1, %2};" ::"r"(slot), "r"(tile.from), "r"(tile.blocks) : "memory");
    barrier_arrive(barrier(TileFull, slots.stage));
    slots.advance();
  };
  u32 letters = 0;
  Tile tile(blockIdx.x / (1 + kPaired), shape, heads);
  publish(tile);
  while (tile.index < shape.units) {
    u32 drawn = tile.index;
    const int head = tile.h / shape.group, stages = stages_of(tile);
    for (int block = stages - 1; block >= 0 || stages == 0; --block) {
      if (block >= 0) {
        barrier_wait(barrier(KEmpty, keys.stage), keys.phase ^ 1);
        load_tile(memory + kKeysAt + keys.stage * kTile, maps.k, barrier(KFull, keys.stage), tile, head, block);
        keys.advance();
      }
      // As late as hides its latency: who draws early draws more than it can do in time.
      if (kTickets && rank_in_pair() == 0 && block == min(1, stages - 1)) drawn = atomicAdd(ticket, 1u);  // takes its time
      if (block <= 0) break;
    }
    if (kTickets && kPaired) {
      const u32 letter = barriers + 8 * Letters + letters % kLetters * 4, told = barrier(Drawn, letters % kLetters);
      if (rank_in_pair() == 0) {
        send_letter(letter, told, drawn);
      } else {
        barrier_expect(told, 4);
        barrier_wait(told, letters / kLetters % 2);
        asm volatile("ld.shared.u32 %0, [%1];" : "=r"(drawn) : "r"(letter) : "memory");
      }
      ++letters;
    }
    const u32 dealt = gridDim.x / (1 + kPaired);
    u32 number = dealt + drawn;
    if (kRotates) number += number % dealt == dealt - 1 ? 1 - dealt : 1;  // one further in each round
    tile = Tile(number, shape, heads);
    publish(tile);
  }
}

// The second: with V.
__device__ __forceinline__ void send_values(const Maps& maps, const Shape& shape, u32 memory) {
  const u32 barriers = memory + kBarriersAt;
  const auto barrier = [&](int name, int index) { return barriers + 8 * (name + index); };
  Ring<VALUE_TILES> values;
  Ring<3> slots;
  while (true) {
    barrier_wait(barrier(TileFull, slots.stage), slots.phase);
    const Tile tile = read_tile(memory, slots.stage);
    barrier_arrive(barrier(TileEmpty, slots.stage));
    slots.advance();
    if (tile.index >= shape.units) return;
    const int head = tile.h / shape.group;
    for (int block = stages_of(tile) - 1; block >= 0; --block) {
      barrier_wait(barrier(VEmpty, values.stage), values.phase ^ 1);
      load_tile(memory + kValuesAt + values.stage * kTile, maps.v, barrier(VFull, values.stage), tile, head, block);
      values.advance();
    }
  }
}

// The third: with queries, as soon as a team wants them, once their place is free.
__device__ __forceinline__ void send_queries(const Maps& maps, const Shape& shape, u32 memory) {
  const u32 barriers = memory + kBarriersAt;
  const auto barrier = [&](int name, int index) { return barriers + 8 * (name + index); };
  Ring<3> slots;
  Ring<kPlaces> places;
  while (true) {
    barrier_wait(barrier(TileFull, slots.stage), slots.phase);
    const Tile tile = read_tile(memory, slots.stage);
    barrier_arrive(barrier(TileEmpty, slots.stage));
    slots.advance();
    if (tile.index >= shape.units) return;
    if (tile.blocks == 0) continue;
#pragma unroll
    for (int team = 0; team < kTeams; ++team) {
      const int place = kTeams * places.stage + team;
      barrier_wait(barrier(QWanted, place), places.phase);
      barrier_expect(barrier(QFull, place), kTileQ);
#pragma unroll
      for (int column = 0; column < kHead / 64; ++column)
        load_box(memory + place * kTileQ + column * kColumnQ, maps.q, barrier(QFull, place), column * 64, tile.h,
                 tile.first + kTeamQueries * team, tile.b);
    }
    places.advance();
  }
}

// --- A team ---

// Of the two queries that a thread has a part of (8 apart): weights are 2^((logit - base) * scale), and base is -inf as long
// as no key was seen; the sum of its part of the weights; and what a new base makes of earlier weights, in O.
struct Rows {
  float base[2], sum[2], shrink[2];
  bool shrinks;  // of a warp
};

__device__ __forceinline__ float largest_of_four(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

__device__ __forceinline__ float sum_of_four(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

// base * scale is rounded, by so much less than 1 below this that all weights may be relative to the rounded product, which
// takes one instruction less.
constexpr float kFar = 4096.0f;

// Logits of one of the two queries to weights relative to `base`, and their sum. `apart`: how much more of it is in one half
// of them than half of what is in the other, so that two equal great weights do not hide each other. `exact`: for
// bases of any size.
template <bool exact>
__device__ __forceinline__ float weigh(float (&s)[KEYS / 2], int r, float scale, float base, float& apart) {
  const float product = __fmul_rn(base, scale);
  float part[2] = {};
#pragma unroll
  for (int j = 0; j < KEYS / 8; ++j)
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      float& x = s[4 * j + 2 * r + e];
      x = exp2_fast(exact ? __fmul_rn(x - base, scale) : fmaf(x, scale, -product));
      part[e] += x;
    }
  apart = WATCH == WATCH_all ? part[0] + part[1] : fmaf(part[1], -0.5f, part[0]);
  return part[0] + part[1];
}

template <bool first>
__device__ __forceinline__ float largest(const float (&s)[KEYS / 2], int r) {
  if (!first) {  // weights: as whole numbers they have the same order, and three are compared by one instruction
    int high[2] = {};
#pragma unroll
    for (int j = 0; j < KEYS / 8; ++j)
      high[j % 2] = max(max(__float_as_int(s[4 * j + 2 * r]), __float_as_int(s[4 * j + 2 * r + 1])), high[j % 2]);
    return __int_as_float(max(high[0], high[1]));
  }
  float high[2] = {minus_infinity(), minus_infinity()};
#pragma unroll
  for (int j = 0; j < KEYS / 8; ++j)
#pragma unroll
    for (int e = 0; e < 2; ++e) high[e] = fmaxf(high[e], s[4 * j + 2 * r + e]);
  return fmaxf(high[0], high[1]);
}

// Logits to weights relative to the maximum so far. A row may have seen no key yet: then its weights are 0.
template <bool first>
__device__ __forceinline__ void softmax(float (&s)[KEYS / 2], Rows& rows, float scale) {
  float highest[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) highest[r] = largest<true>(s, r);
  bool rises = first;
  if (!rises)  // no thread of four need know of the others' to see that none rises
    rises = __any_sync(0xffffffffu, highest[0] > rows.base[0] || highest[1] > rows.base[1]);
  rows.shrinks = rises && !first;
  if (rises) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float base = largest_of_four(highest[r]);
      if (!first) {
        base = fmaxf(rows.base[r], base);
        rows.shrink[r] = exp2_fast(__fmul_rn(rows.base[r] - (base == minus_infinity() ? 0.0f : base), scale));
        rows.sum[r] *= rows.shrink[r];
      }
      rows.base[r] = base;
    }
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float base = rows.base[r];
    if (base == minus_infinity()) base = 0.0f;
    float apart;
    const float sum = weigh<true>(s, r, scale, base, apart);
    rows.sum[r] = first ? sum : rows.sum[r] + sum;
  }
}

// The same in one pass, relative to the base there is. Weights are rounded before they go into P V, the sum is not, so a
// weight that is a great part of its row has to be one that needs no rounding: the greatest is 1 then, and its logit the
// new base. Only a tile in which one half of a thread's weights is much greater than the other is searched for such a
// weight; a smaller one's error is one of many. False, and nothing is to be used, if a weight is too great for
// its type, or none can be had without a maximum, or the base is far from 0.
__device__ __forceinline__ bool softmax_at_once(float (&s)[KEYS / 2], Rows& rows, float scale) {
  float sum[2], apart[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) sum[r] = weigh<false>(s, r, scale, rows.base[r], apart[r]);
  const float farthest = fmaxf(fabsf(rows.base[0]), fabsf(rows.base[1])) * scale;
  constexpr float kPart = 1.0f / PEAK;
  const bool much = farthest > kFar || !(sum[0] + sum[1] <= 256.0f) || fabsf(apart[0]) > kPart * rows.sum[0] || fabsf(apart[1]) > kPart * rows.sum[1];  // or no number
  rows.shrinks = false;
  if (__any_sync(0xffffffffu, much)) {
    constexpr float kGreatest = GREATEST;
    if (__any_sync(0xffffffffu, farthest > kFar || !(sum[0] + sum[1] <= kGreatest))) return false;
    float top[2];
    bool peaks = false;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      top[r] = largest_of_four(largest<false>(s, r));
      const float all = sum_of_four(rows.sum[r]);
      if (!(top[r] > 1.0f && (top[r] > 256.0f || HEAVY * top[r] > all))) top[r] = 1.0f;
      peaks |= top[r] != 1.0f;
    }
    rows.shrinks = __any_sync(0xffffffffu, peaks);
    if (rows.shrinks) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const float base = top[r] == 1.0f ? rows.base[r] : rows.base[r] + log2f(top[r]) / scale;
        const float shrink = exp2_fast(__fmul_rn(rows.base[r], scale) - __fmul_rn(base, scale));
        rows.base[r] = base, rows.shrink[r] = shrink;
        rows.sum[r] *= shrink, sum[r] *= shrink;
#pragma unroll
        for (int j = 0; j < KEYS / 8; ++j)
#pragma unroll
          for (int e = 0; e < 2; ++e) s[4 * j + 2 * r + e] *= shrink;
      }
    }
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) rows.sum[r] += sum[r];
  return true;
}

__device__ __forceinline__ void mask(float (&s)[KEYS / 2], int first_key, const int (&visible)[2]) {
#pragma unroll
  for (int j = 0; j < KEYS / 8; ++j)
#pragma unroll
    for (int e = 0; e < 4; ++e)
      if (first_key + 8 * j + e % 2 >= visible[e / 2]) s[4 * j + e] = minus_infinity();
}

__device__ __forceinline__ void to_weights(u32 (&p)[KEYS / 4], const float (&s)[KEYS / 2]) {
#pragma unroll
  for (int i = 0; i < KEYS / 4; ++i) p[i] = pack(s[2 * i], s[2 * i + 1]);
}

class Team {
 public:
  __device__ __forceinline__ Team(const Maps& maps, const Shape& shape, u32 memory, int number,
                                  void* o, float* lse, u32* came, float* parts, float scale)
      : maps_(maps),
        shape_(shape),
        memory_(memory),
        near_(kPaired ? memory & 0x3ffff : memory),
        number_(number),
        lane_(threadIdx.x % 32),
        row_(threadIdx.x % 128 / 32 * 16 + lane_ / 4),
        o_(o),
        lse_(lse),
        came_(came),
        parts_(parts),
        scale_(scale * 1.44269504f),
        given_scale_(scale) {}

  __device__ __forceinline__ void work() {
    if (kTurns && number_ == kTeams - 1) named_arrive(turn(0), 256);  // the first team begins
    bool more = fetch();
#pragma unroll 1
    while (more) more = idle_next() ? pass_by() : attend();
    if (lane_ == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }

 private:
  __device__ __forceinline__ u32 barrier(int name, int index) const {
    return memory_ + kBarriersAt + 8 * (name + index);
  }
  __device__ __forceinline__ int rows_of_warp() const { return threadIdx.x % 128 / 32 * 16; }  // the first
  __device__ __forceinline__ bool leader() const { return threadIdx.x % 128 == 0; }
  __device__ __forceinline__ int turn(int team) const { return 1 + team; }
  __device__ __forceinline__ int turn_after() const { return turn(number_ + 1 == kTeams ? 0 : number_ + 1); }
  __device__ __forceinline__ void sync_team() const { named_sync(8 + number_, 128); }
  __device__ __forceinline__ u32 queries(u32 place) const { return memory_ + (kTeams * place + number_) * kTileQ; }
  __device__ __forceinline__ u32 queries_barrier(u32 place) const { return barrier(QFull, kTeams * place + number_); }
  __device__ __forceinline__ void release(u32 b) const {
    if (lane_ == 0) barrier_arrive(b);
  }
  // A stage of K or V, which a pair's producers fill together.
  __device__ __forceinline__ void release_stage(u32 b) const {
    if (!kPaired)
      release(b);
    else if (lane_ < 2)
      barrier_arrive_at(b, lane_);
  }
  __device__ __forceinline__ u32 other_place() const { return kPlaces == 1 ? 0 : place_ ^ 1; }

  // What the warp wrote of O into shared memory has left it.
  __device__ __forceinline__ void what_was_written_has_left() const {
    if (lane_ == 0) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    __syncwarp();
  }

  // The place of queries that is not in use is free for the next ones, or the only one is, once registers have what was in
  // it: what the warp wrote of O from there has left it, long since.
  __device__ __forceinline__ void want_queries() const {
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    barrier_arrive(barrier(QWanted, kTeams * other_place() + number_));
  }

  // And from now on it is.
  __device__ __forceinline__ void take_place() {
    place_ = other_place();
    barrier_wait(queries_barrier(place_), query_phases_ >> place_ & 1);
    query_phases_ ^= 1 << place_;
  }
  __device__ __forceinline__ void turn_to_queries() {
    take_place();
    if (kHeld > 0) {
      const u32 row = threadIdx.x % 128 / 32 * 16 + lane_ % 16, half = lane_ / 16;
#pragma unroll
      for (int i = 0; i < kHeld / 4; ++i) {
        const u32 chunk = 2 * i + half;
        load_matrices(q_ + 4 * i, queries(place_) + chunk / 8 * kColumnQ + row * 128 + ((chunk % 8) ^ (row % 8)) * 16);
      }
    }
  }

  __device__ __forceinline__ void multiply_queries(float (&s)[KEYS / 2]) const {
    const u64 k = describe(near_ + kKeysAt + keys_.stage * kTile, 0);
#if HELD == 0
    multiply_qk(s, describe(near_ + (kTeams * place_ + number_) * kTileQ, 0), k);
#else
    multiply_qk(s, q_, describe(near_ + (kTeams * place_ + number_) * kTileQ, 0), k);
#endif
  }

  __device__ __forceinline__ Tile tile_in(int slot) const {
    Tile tile = read_tile(memory_, slot);
    tile.index = uniform(tile.index), tile.from = uniform(tile.from), tile.blocks = uniform(tile.blocks);
    return tile;
  }
  __device__ __forceinline__ void drop(int slot) const {
    __syncwarp();
    release(barrier(TileEmpty, slot));
  }

  // The next tile is in the slot, and its queries on their way. False: there is none. (Each tile has keys; but without the
  // loop ptxas arranges the crossing differently, and spills.)
  __device__ __forceinline__ bool fetch() {
    while (true) {
      barrier_wait(barrier(TileFull, slots_.stage), slots_.phase);
      const Tile tile = tile_in(slots_.stage);
      if (tile.index >= shape_.units) return false;
      if (tile.blocks > 0) {
        if (lane_ == 0) want_queries();
        return true;
      }
      drop(slots_.stage);
      slots_.advance();
    }
  }

  // Whether this team has no queries of the tile in the slot: they would be behind the last one.
  __device__ __forceinline__ bool idle_next() const {
    if (kTeams != 3) return false;
    const Tile tile = read_tile(memory_, slots_.stage);
    return uniform(tile.first) + kTeamQueries * number_ >= shape_.S_q;
  }

  // A turn without products.
  __device__ __forceinline__ void take_turn() const {
    if (kTurns) {
      named_sync(turn(number_), 256);
      named_arrive(turn_after(), 256);
    }
  }

  // Such a tile: what the others wait for, and nothing else. The turn of the crossing into it was taken before, that of the
  // crossing out of it is taken here. True: there is another tile, and its queries are on their way.
  __device__ __forceinline__ bool pass_by() {
    const Tile tile = tile_in(slots_.stage);
    drop(slots_.stage);
    slots_.advance();
    take_place();
    bool more = false;
#pragma unroll 1
    for (int block = tile.blocks - 1; block >= 0; --block) {
      if (block == 0) more = fetch();
      barrier_wait(barrier(KFull, keys_.stage), keys_.phase);
      __syncwarp();  // no lane waits for a phase that is over
      if (block < tile.blocks - 1) take_turn();
      release_keys();
      barrier_wait(barrier(VFull, values_.stage), values_.phase);
      __syncwarp();
      release_stage(barrier(VEmpty, values_.stage));
      values_.advance();
    }
    if (more) take_turn();
    return more;
  }

  // A tile as this thread sees it: how many keys its two queries see.
  struct View {
    int slot, blocks, last, visible[2], clear;  // tiles of keys, the last one; those below `clear` need no mask
  };
  __device__ __forceinline__ View view_of_next() {
    const Tile tile = tile_in(slots_.stage);
    View view{slots_.stage, tile.blocks, tile.from + tile.blocks - 1, {shape_.S_kv, shape_.S_kv}, shape_.S_kv / KEYS};
    slots_.advance();
    if (kMasked) {
      const int first = tile.first + kTeamQueries * number_, offset = shape_.S_kv - shape_.S_q + 1;
      view.visible[0] = min(shape_.S_kv, first + row_ / kFold + offset);
      view.visible[1] = min(shape_.S_kv, first + (row_ + 8) / kFold + offset);
      view.clear = min(view.clear, max(first + offset, 0) / KEYS);
    }
    return view;
  }

  __device__ __forceinline__ void issue_queries(float (&s)[KEYS / 2]) const {
    products_begin();
    multiply_queries(s);
    products_commit();
  }
  template <bool in_turn>
  __device__ __forceinline__ void issue_values(float (&o)[kHead / 2], u32 (&p)[KEYS / 4]) {
    barrier_wait(barrier(VFull, values_.stage), values_.phase);
    const u64 v = describe(near_ + kValuesAt + values_.stage * kTile, kColumn);
    constexpr int kEarly = KEYS / 16 - EARLY;
    products_begin();
    multiply_pv<0, kEarly>(o, p, v, adds_);
    if (in_turn && kTurns) named_arrive(turn_after(), 256);
    multiply_pv<kEarly, KEYS / 16>(o, p, v, 1);
    products_commit();
    adds_ = 1;
  }
  // Q K^T of the tile of keys that is due, and P V of the one before, which may be another tile's.
  __device__ __forceinline__ void issue(float (&s)[KEYS / 2], float (&o)[kHead / 2], u32 (&p)[KEYS / 4]) {
    barrier_wait(barrier(KFull, keys_.stage), keys_.phase);
    if (kTurns) named_sync(turn(number_), 256);
    issue_queries(s);
    issue_values<true>(o, p);
  }
  __device__ __forceinline__ void wait_logits(float (&s)[KEYS / 2]) {
    products_wait<1>();
    pin(s);
  }
  __device__ __forceinline__ void release_keys() {
    release_stage(barrier(KEmpty, keys_.stage));
    keys_.advance();
  }
  __device__ __forceinline__ void wait_output(float (&o)[kHead / 2]) {
    products_wait<0>();
    pin(o);
    release_stage(barrier(VEmpty, values_.stage));
    values_.advance();
  }
  // The first block of a pair passes the stage by that the second one has the use of alone.
  template <int stages>
  __device__ __forceinline__ void pass(Ring<stages>& ring, int full, int empty) const {
    if (!kStaggered) return;
    const bool passes = blockIdx.x % 2 == 0;
    if (passes) {
      barrier_wait(barrier(full, ring.stage), ring.phase);
      release_stage(barrier(empty, ring.stage));
    }
    ring.stage += passes;
    const bool turns = ring.stage == stages;
    ring.stage = turns ? 0 : ring.stage, ring.phase ^= turns;
  }
  __device__ __forceinline__ static void shrink(float (&o)[kHead / 2], const float (&by)[2]) {
#pragma unroll
    for (int i = 0; i < kHead / 2; ++i) o[i] *= by[i / 2 % 2];
  }

  // This warp's part of Q K^T once more, without the others.
  __device__ __forceinline__ void multiply_again(float (&s)[KEYS / 2]) const {
#pragma unroll
    for (int i = 0; i < KEYS / 2; ++i) s[i] = 0.0f;
    const u32 row = threadIdx.x % 128 / 32 * 16 + lane_ % 16, key = lane_ / 16 * 8 + lane_ % 8;
#pragma unroll 1
    for (int step = 0; step < kHead / 16; ++step) {
      u32 a[4], b[4];
      const u32 chunk_q = 2 * step + lane_ / 16, chunk = 2 * step + lane_ / 8 % 2;
      const u32 from_q = queries(place_) + chunk_q / 8 * kColumnQ + row * 128 + ((chunk_q % 8) ^ (row % 8)) * 16;
      const u32 from = memory_ + kKeysAt + keys_.stage * kTile + chunk / 8 * kColumn + key * 128 + ((chunk % 8) ^ (key % 8)) * 16;
#if HELD > 0
      if (kPlaces == 1)
#pragma unroll
        for (int i = 0; i < kHead / 4; ++i) a[i % 4] = i < 4 || i / 4 == step ? q_[i] : a[i % 4];
      else
#endif
        load_matrices(a, from_q);
#pragma unroll
      for (int j = 0; j < KEYS / 16; ++j) {
        load_matrices(b, from + j * 16 * 128);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          float* const c = s + 8 * j + 4 * half;
          asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." TYPE "." TYPE ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                       : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                       : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[2 * half]), "r"(b[2 * half + 1]));
        }
      }
    }
  }

  template <bool masked>
  __device__ __forceinline__ void step(float (&o)[kHead / 2], u32 (&p)[KEYS / 4], Rows& rows, int block,
                                       const View& view) {
    float s[KEYS / 2];
    issue(s, o, p);
    wait_logits(s);
    if (!masked) {
      if (!softmax_at_once(s, rows, scale_)) {
        multiply_again(s);
        softmax<false>(s, rows, scale_);
      }
      release_keys();
    } else {
      release_keys();
      mask(s, block * KEYS + lane_ % 4 * 2, view.visible);
      softmax<false>(s, rows, scale_);
    }
    wait_output(o);
    if (rows.shrinks) shrink(o, rows.shrink);
    to_weights(p, s);
  }

  __device__ __forceinline__ void first_softmax(float (&s)[KEYS / 2], u32 (&p)[KEYS / 4], Rows& rows,
                                                const View& view) {
    if (view.last >= view.clear) mask(s, view.last * KEYS + lane_ % 4 * 2, view.visible);
    softmax<true>(s, rows, scale_);
  }

  // From one tile to the next.
  __device__ __forceinline__ void cross(float (&o)[kHead / 2], u32 (&p)[KEYS / 4], Rows& rows, View& view, u32 done) {
    float s[KEYS / 2];
    pass(keys_, KFull, KEmpty);
    issue(s, o, p);
    const View following = view_of_next();
    Rows ended = rows;
    wait_logits(s);
    release_keys();
    first_softmax(s, p, rows, following);
    wait_output(o);
    finish(view.slot, done, o, ended);
    pass(values_, VFull, VEmpty);
    to_weights(p, s);
    view = following;
    adds_ = 0;
  }

  // All tiles of this block from the one in the slot on, up to one that this team passes by. True: there is such a one.
  __device__ __forceinline__ bool attend() {
    float o[kHead / 2];  // undefined until a tile's first product
    u32 p[KEYS / 4];
    Rows rows;
    View view = view_of_next();
    bool more;
    adds_ = 0;
    turn_to_queries();
    pass(keys_, KFull, KEmpty);
    pass(values_, VFull, VEmpty);
    {
      float s[KEYS / 2];
      barrier_wait(barrier(KFull, keys_.stage), keys_.phase);
      issue_queries(s);
      products_wait<0>();
      pin(s);
      release_keys();
      first_softmax(s, p, rows, view);
      to_weights(p, s);
    }
#pragma unroll 1
    while (true) {
      more = false;
      bool idle = false;
      int block = view.blocks - 2;
#pragma unroll 1
      for (int last = 1; last >= 0; --last) {  // before the last block the next queries are sent for
        if (kMasked) {
#pragma unroll 1
          for (; block >= max(view.clear, last); --block) step<true>(o, p, rows, block, view);
        }
#pragma unroll 1
        for (; block >= last; --block) step<false>(o, p, rows, block, view);
        if (last > 0) {
          more = fetch();
          if (more) idle = idle_next();
        }
      }
      if (!more || idle) break;

      const u32 done = place_;
      turn_to_queries();
      cross(o, p, rows, view, done);
    }
    if (kTeams == 3 && more) take_turn();  // the others' crossing
    issue_values<false>(o, p);
    wait_output(o);
    if (kTeams == 3 && kPlaces == 1 && more) barrier_wait(queries_barrier(place_), query_phases_ >> place_ & 1);  // O may come where those were put
    if (kPlaces == 1 && !more) what_was_written_has_left();
    finish(view.slot, place_, o, rows);
    return kTeams == 3 && more;
  }

  // A part of a tile goes to memory; who comes last takes all of them, always in the same order, and is told so.
  __device__ __forceinline__ bool gather(int part, float (&o)[kHead / 2], Rows& rows) const {
    const int team = (part / kParts * (1 + kPaired) + rank_in_pair()) * kTeams + number_;
    float* const first = parts_ + static_cast<long long>(team) * kParts * kPart + threadIdx.x % 128;
    float* const mine = first + part % kParts * kPart;
#pragma unroll
    for (int i = 0; i < kHead / 2; ++i) mine[i * 128] = o[i];
#pragma unroll
    for (int r = 0; r < 2; ++r) mine[(kHead / 2 + r) * 128] = rows.base[r], mine[(kHead / 2 + 2 + r) * 128] = rows.sum[r];
    __threadfence();
    sync_team();
    const u32 slot = memory_ + kBarriersAt + 8 * Came + 4 * number_;
    if (leader()) asm volatile("st.shared.u32 [%0], %1;" ::"r"(slot), "r"(atomicAdd(came_ + team, 1u)) : "memory");
    sync_team();
    u32 before;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(before) : "r"(slot) : "memory");
    if (before != kParts - 1) return false;
    __threadfence();
#pragma unroll 1
    for (int i = 0; i < kParts; ++i)
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const float base = __ldcg(first + i * kPart + (kHead / 2 + r) * 128);
        rows.base[r] = i == 0 ? base : fmaxf(rows.base[r], base);
      }
    rows.sum[0] = rows.sum[1] = 0.0f;
#pragma unroll
    for (int i = 0; i < kHead / 2; ++i) o[i] = 0.0f;
#pragma unroll 1
    for (int i = 0; i < kParts; ++i) {
      const float* const from = first + i * kPart;
      float factor[2];
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        factor[r] = exp2_fast(__fmul_rn(__ldcg(from + (kHead / 2 + r) * 128) - rows.base[r], scale_));
        rows.sum[r] = fmaf(factor[r], __ldcg(from + (kHead / 2 + 2 + r) * 128), rows.sum[r]);
      }
#pragma unroll
      for (int j = 0; j < kHead / 2; ++j) o[j] = fmaf(factor[j / 2 % 2], __ldcg(from + j * 128), o[j]);
    }
    return true;
  }

  // O leaves through the team's part of a place of Q.
  __device__ __forceinline__ void finish(int slot, u32 place, float (&o)[kHead / 2], Rows& rows) const {
    const Tile tile = tile_in(slot);
    drop(slot);
    const int first = tile.first + kTeamQueries * number_;
    if (kParts > 1 && tile.index >= shape_.whole && !gather(tile.index - shape_.whole, o, rows)) return;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float sum = rows.sum[r];
      sum += __shfl_xor_sync(0xffffffffu, sum, 1);
      sum += __shfl_xor_sync(0xffffffffu, sum, 2);
      const bool none = kMasked && rows.base[r] == minus_infinity();
      const float factor = reciprocal(sum);
#pragma unroll
      for (int i = 0; i < kHead / 8; ++i) o[4 * i + 2 * r] *= factor, o[4 * i + 2 * r + 1] *= factor;
      if (none)
#pragma unroll
        for (int i = 0; i < kHead / 8; ++i) o[4 * i + 2 * r] = o[4 * i + 2 * r + 1] = 0.0f;
      const int row = first + (row_ + 8 * r) / kFold, head = tile.h + (row_ + 8 * r) % kFold;
      if (lane_ % 4 == 0 && row < shape_.S_q)
        lse_[(static_cast<long long>(tile.b) * shape_.H + head) * shape_.S_q + row] =
            none ? minus_infinity() : fmaf(rows.base[r], given_scale_, log2f(sum) * 0.693147181f);
    }
    if (kHeld < kHead / 4) sync_team();  // every warp's products have read Q
    const u32 row = threadIdx.x % 128 / 32 * 16 + lane_ % 16, half = lane_ / 16;
#pragma unroll
    for (int i = 0; i < kHead / 16; ++i) {
      const u32 chunk = 2 * i + half;
      const u32 to = queries(place) + chunk / 8 * kColumnQ + row * 128 + ((chunk % 8) ^ (row % 8)) * 16;
      asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),
                   "r"(pack(o[8 * i], o[8 * i + 1])), "r"(pack(o[8 * i + 2], o[8 * i + 3])),
                   "r"(pack(o[8 * i + 4], o[8 * i + 5])), "r"(pack(o[8 * i + 6], o[8 * i + 7]))
                   : "memory");
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncwarp();
    if (lane_ == 0) {
#pragma unroll
      for (int column = 0; column < kHead / 64; ++column)
        store_box(maps_.o, queries(place) + column * kColumnQ + rows_of_warp() * 128, column * 64, tile.h,
                  first + rows_of_warp() / kFold, tile.b);
      asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    }
  }

  const Maps& maps_;
  const Shape& shape_;
  const u32 memory_, near_;  // near_: as descriptors want it, without the block's rank in its pair, above bit 23
  const int number_, lane_, row_;  // row_: the first of this thread's two queries, in the team
  void* const o_;
  float* const lse_;
  u32* const came_;     // parts that are there, by parted tile and team
  float* const parts_;  // kPart floats each
  const float scale_;        // for powers of two
  const float given_scale_;  // for powers of e
  Ring<KEY_TILES> keys_;
  Ring<VALUE_TILES> values_;
  Ring<3> slots_;  // of the next tile
  u32 place_ = kPlaces - 1, query_phases_ = 0;
  u32 adds_ = 0;  // O has something to add to
  u32 q_[kHeld > 0 ? kHeld : 1];  // what of Q is to be in registers
};

}  // namespace

extern "C" __global__ void __launch_bounds__(128 * (kTeams + 1), 1)
    attention_forward(const __grid_constant__ CUtensorMap map_q, const __grid_constant__ CUtensorMap map_k,
                      const __grid_constant__ CUtensorMap map_v, const __grid_constant__ CUtensorMap map_o,
                      void* o, float* lse, u32* ticket, float* parts, int H, int group, int S_q, int S_kv, int m_tiles,
                      int tiles, int whole, int units, int section, float scale) {
  extern __shared__ char shared[];
  const u32 memory = (static_cast<u32>(__cvta_generic_to_shared(shared)) + 1023) / 1024 * 1024;
  const Maps maps{&map_q, &map_k, &map_v, &map_o};
  const Shape shape{H, group, S_q, S_kv, m_tiles, whole, units, section};
  const int heads = tiles / m_tiles;
  if (threadIdx.x == 0) {
    const u32 barriers = memory + kBarriersAt;
    for (int t = 0; t < 2 * kTeams; ++t)
      barrier_init(barriers + 8 * (QFull + t), 1), barrier_init(barriers + 8 * (QWanted + t), 4);
    for (int s = 0; s < KEY_TILES; ++s) {
      barrier_init(barriers + 8 * (KFull + s), 1);
      barrier_init(barriers + 8 * (KEmpty + s), 4 * kTeams * (1 + kPaired));
    }
    for (int s = 0; s < VALUE_TILES; ++s) {
      barrier_init(barriers + 8 * (VFull + s), 1);
      barrier_init(barriers + 8 * (VEmpty + s), 4 * kTeams * (1 + kPaired));
    }
    for (int s = 0; s < 3; ++s) {
      barrier_init(barriers + 8 * (TileFull + s), 1);
      barrier_init(barriers + 8 * (TileEmpty + s), 4 * kTeams + 2);
    }
    for (int i = 0; i < kLetters; ++i) barrier_init(barriers + 8 * (Drawn + i), 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  if (kPaired)
    cluster_sync();
  else
    __syncthreads();
  const int warpgroup = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);
  if (warpgroup == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    if (threadIdx.x == 0) send_keys(maps, shape, heads, memory, ticket);
    if (threadIdx.x == 32) send_values(maps, shape, memory);
    if (threadIdx.x == 64) send_queries(maps, shape, memory);
  } else {
    if constexpr (kTeams == 3)
      asm volatile("setmaxnreg.inc.sync.aligned.u32 160;");
    else
      asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    Team(maps, shape, memory, warpgroup - 1, o, lse, ticket + 16, parts, scale).work();
    if (kPaired) cluster_sync();  // the other block's teams have done with this one's barriers
  }
}
