/*--- cultivar
name: attention_wgmma
task: attention_forward
target: cuda
about: "Hopper: one warp feeds tiles through TMA and mbarriers, two or three warpgroups multiply them with wgmma."
requires: "dtype != f32 && (D == 64 || D == 128 || D == 256) && scale > 0"
tunables:
  CONSUMERS: {values: [2, 3], default: 2}  # warpgroups that multiply, 64 queries each (2 where D is 256)
  # Keys in a tile: without the mask, with it, and where D is 256
  BLOCK_N: {values: [64, 80, 96, 112, 128, 144, 160, 176, 192], default: 64}
  BLOCK_N_CAUSAL: {values: [64, 80, 96, 112, 128, 144, 160, 176, 192], default: 64}
  BLOCK_N_WIDE: {values: [32, 48, 64, 80], default: 64}
  STAGES: {values: [2, 3, 4], default: 2}  # tiles of K, and of V, in flight
  OVERLAP: {values: [0, 1], default: 0}    # softmax begins before P V of the tile before has ended
  PING_PONG: {values: [0, 1], default: 0}  # consumers take turns at the tensor cores
  RESCALE: {values: [always, needed], default: always}            # O, also where no maximum of a warp's queries rose
  SCHEDULE: {values: [single, strided, ticket], default: single}  # one tile a block; every n-th; whoever is free
  EPILOGUE: {values: [tma, direct], default: tma}                 # O leaves through Q's place, or from registers
  SECTION_MB: {values: [8, 16, 32, 64], default: 16}              # causal: K and V of the heads worked on at a time
constraints:
  - "smem <= smem_max"
  - "3 * keys / 4 + D / 2 + 24 <= (teams == 2 ? 240 : 160)"  # S, P and O are in a consumer's registers
specialize: [D, causal, dtype, windowed, capped]
let:
  windowed: "window > 0"
  capped: "softcap > 0"
  span: "min(window, S_q + S_kv)"  # a wider window hides nothing
  teams: "D == 256 ? 2 : CONSUMERS"
  keys: "D == 256 ? BLOCK_N_WIDE : (causal ? BLOCK_N_CAUSAL : BLOCK_N)"
  smem: "(64 * teams + 2 * STAGES * keys) * D * 2 + 1536"  # 1024 to align, 512 for barriers
  m_blocks: "ceil_div(S_q, 64 * teams)"
  tiles: "B * H * m_blocks"
  group: "H / H_kv"
  fitting: "floor(SECTION_MB * 1048576 / (4 * S_kv * D)) * group"
  section: "causal ? max(1, min(fitting, B * H)) : 1"
workspace:
  ticket: {bytes: 64, zero: true}
tensor_maps:
  map_q: {tensor: q, sizes: [D, H, S_q, B], strides: [D, H*D, S_q*H*D],
          box: [64, 1, 64, 1], swizzle: 128B, l2_promotion: 128B}
  map_k: {tensor: k, sizes: [D, H_kv, S_kv, B], strides: [D, H_kv*D, S_kv*H_kv*D],
          box: [64, 1, keys, 1], swizzle: 128B, l2_promotion: 256B}
  map_v: {tensor: v, sizes: [D, H_kv, S_kv, B], strides: [D, H_kv*D, S_kv*H_kv*D],
          box: [64, 1, keys, 1], swizzle: 128B, l2_promotion: 256B}
  map_o: {tensor: o, sizes: [D, H, S_q, B], strides: [D, H*D, S_q*H*D], box: [64, 1, 64, 1], swizzle: 128B}
launch:
  - kernel: attention_forward
    grid: ["SCHEDULE == SCHEDULE_single ? tiles : min(num_sms, tiles)", 1, 1]
    block: [128 * (teams + 1), 1, 1]
    shared: smem
    args: [map_q, map_k, map_v, map_o, o, lse, ticket, H, group, S_q, S_kv, m_blocks, tiles, section, scale,
           span, softcap]
---*/

// A tile is 64 * TEAMS queries of one head. The first warpgroup gives its registers away; one thread of it copies tiles
// of K and V, the last keys first, into two rings of STAGES buffers. Each other warpgroup, a team, has 64 queries: it
// keeps S = Q K^T, P and O in registers, and P goes into P V from there. Shared tiles are columns of 64 elements with
// TMA's 128-byte swizzle; V is read transposed by the tensor core itself. TMA fills what lies past the last key with
// zeros and does not write past the last query. A block visits only the tiles of keys that some query of it sees; of
// these, only the ones at the edges of the mask and of the window are masked.

#if D == 256
#define TEAMS 2
#define KEYS BLOCK_N_WIDE
#elif causal
#define TEAMS CONSUMERS
#define KEYS BLOCK_N_CAUSAL
#else
#define TEAMS CONSUMERS
#define KEYS BLOCK_N
#endif
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
  kWindow = windowed,
  kCapped = capped,
  kColumnQ = 64 * 128,  // bytes of 64 elements of each query of a team
  kColumn = KEYS * 128,
  kTileQ = 64 * kHead * 2,
  kTile = KEYS * kHead * 2,
  kKeysAt = TEAMS * kTileQ,
  kValuesAt = kKeysAt + STAGES * kTile,
  kBarriersAt = kValuesAt + STAGES * kTile
};
// Barriers, 8 bytes each, and behind them the two slots for tickets.
enum : int {
  QFull = 0,
  KFull = 3,
  KEmpty = KFull + STAGES,
  VFull = KEmpty + STAGES,
  VEmpty = VFull + STAGES,
  TileFull = VEmpty + STAGES,
  TileEmpty = TileFull + 2,
  Slots = TileEmpty + 2
};

__device__ __forceinline__ float minus_infinity() {
  return __int_as_float(0xff800000);
}

__device__ __forceinline__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// tanh to 6e-7 of its value, as a quotient of polynomials: tanh.approx is off by 5e-4, and 1 - 2 / (1 + exp(2 x)) loses
// digits near 0. Beyond 7.9 it is constant. NaN stays NaN.
__device__ __forceinline__ float tanh_fast(float x) {
  asm("{ .reg .f32 t; max.NaN.f32 t, %0, %1; min.NaN.f32 %0, t, %2; }" : "+f"(x) : "f"(-7.9f), "f"(7.9f));
  const float y = x * x;
  const float above = fmaf(fmaf(fmaf(1.1531775e-5f, y, 2.9604669e-3f), y, 0.12934411f), y, 0.99999987f);
  const float below =
      fmaf(fmaf(fmaf(fmaf(2.4925284e-7f, y, 2.4001118e-4f), y, 2.3854056e-2f), y, 0.46267638f), y, 1.0f);
  float inverse;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(below));
  return x * above * inverse;
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

struct Ring {
  int stage = 0;
  u32 phase = 0;
  __device__ __forceinline__ void advance() {
    if (++stage == STAGES) stage = 0, phase ^= 1;
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

__device__ __forceinline__ void store_box(const CUtensorMap* map, u32 from, int d, int head, int row, int b) {
  asm volatile(
      "cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(map),
      "r"(from), "r"(d), "r"(head), "r"(row), "r"(b)
      : "memory");
}

// --- Products ---

// A tile with the 128-byte swizzle; 8 rows of 128 bytes follow each other. `columns` is the distance of its
// columns, which only an operand that lies along its rows (V) needs.
__device__ __forceinline__ u64 describe(u32 address, u32 columns) {
  return 1ull << 62 | static_cast<u64>(1024 >> 4) << 32 | static_cast<u64>(columns >> 4) << 16 |
         (address >> 4);
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

// O += P V
__device__ __forceinline__ void multiply_pv(float (&o)[kHead / 2], const u32 (&p)[KEYS / 4], u64 v) {
#pragma unroll
  for (int step = 0; step < KEYS / 16; ++step) {
    const u64 b = v + step * 2048 / 16;
    asm volatile(SHAPE(D) JOIN(AFTER_, D)(REGISTER_OPERANDS)
                 : JOIN(OPERANDS_, D)(o)
                 : "r"(p[4 * step]), "r"(p[4 * step + 1]), "r"(p[4 * step + 2]), "r"(p[4 * step + 3]),
                   "l"(b));
  }
}

// --- Tiles ---

struct Shape {
  int H, group, S_q, S_kv, m_blocks, tiles, section, window;
};

// A query sees keys from `before` places before its own (with a window) to less than `after` places after it (with the
// mask or a window).
__device__ __forceinline__ int before(const Shape& shape) {
  return shape.window - 1;
}
__device__ __forceinline__ int after(const Shape& shape) {
  return kMasked ? 1 : shape.window;
}

struct Tile {
  int b, h, first;    // first query
  int begin, blocks;  // tiles of keys that some query of it sees: the first one, and how many

  // Sections of heads one after the other; in each the last queries, which see most, go first.
  __device__ __forceinline__ Tile(int index, const Shape& shape, int heads) {
    const int each = shape.section * shape.m_blocks, part = index / each, rest = index - part * each;
    const int wide = min(shape.section, heads - part * shape.section);
    const int m = rest / wide, bh = part * shape.section + rest - m * wide;
    b = bh / shape.H, h = bh - b * shape.H;
    first = (shape.m_blocks - 1 - m) * 64 * TEAMS;
    int end = shape.S_kv;
    if (kMasked || kWindow)
      end = min(end, min(first + 64 * TEAMS, shape.S_q) + shape.S_kv - shape.S_q + after(shape) - 1);
    begin = kWindow ? max(0, first + shape.S_kv - shape.S_q - before(shape)) / KEYS : 0;
    blocks = end <= 0 ? 0 : (end + KEYS - 1) / KEYS - begin;
  }
};

struct Maps {
  const CUtensorMap *q, *k, *v, *o;
};

__device__ __forceinline__ void load_tile(u32 to, const CUtensorMap* map, u32 barrier, const Tile& tile,
                                          int head, int block) {
  barrier_expect(barrier, kTile);
#pragma unroll
  for (int column = 0; column < kHead / 64; ++column)
    load_box(to + column * kColumn, map, barrier, column * 64, head, block * KEYS, tile.b);
}

// One thread feeds everybody. V comes a tile behind K, as the teams want them.
__device__ __forceinline__ void produce(const Maps& maps, const Shape& shape, int heads, u32 memory,
                                        u32* ticket) {
  const u32 barriers = memory + kBarriersAt;
  const auto barrier = [&](int name, int index) { return barriers + 8 * (name + index); };
  Ring keys, values;
  int slot = 0;
  u32 slot_phase = 0;
  for (int index = blockIdx.x; index < shape.tiles;) {
    int next = SCHEDULE == SCHEDULE_strided ? index + gridDim.x : shape.tiles;
    const Tile tile(index, shape, heads);
    const int head = tile.h / shape.group;
    for (int i = 0; i <= tile.blocks; ++i) {
      if (i < tile.blocks) {
        barrier_wait(barrier(KEmpty, keys.stage), keys.phase ^ 1);
        load_tile(memory + kKeysAt + keys.stage * kTile, maps.k, barrier(KFull, keys.stage), tile, head,
                  tile.begin + tile.blocks - 1 - i);
        keys.advance();
      }
      // As late as hides its latency: who draws early draws more than it can do in time.
      if (SCHEDULE == SCHEDULE_ticket && i == tile.blocks) next = gridDim.x + atomicAdd(ticket, 1u);
      if (i > 0) {
        barrier_wait(barrier(VEmpty, values.stage), values.phase ^ 1);
        load_tile(memory + kValuesAt + values.stage * kTile, maps.v, barrier(VFull, values.stage), tile, head,
                  tile.begin + tile.blocks - i);
        values.advance();
      }
    }
    if (SCHEDULE == SCHEDULE_ticket) {
      barrier_wait(barrier(TileEmpty, slot), slot_phase ^ 1);
      asm volatile("st.shared.s32 [%0], %1;" ::"r"(barriers + 8 * Slots + 4 * slot), "r"(next) : "memory");
      barrier_arrive(barrier(TileFull, slot));
      if (++slot == 2) slot = 0, slot_phase ^= 1;
    }
    index = next;
  }
}

// --- A team ---

// Of the two queries that a thread has a part of (8 apart): greatest logit, sum of its part of the weights, and
// what the last tile's maximum makes of earlier weights.
struct Rows {
  float top[2], sum[2], shrink[2];
};

// The keys that these two queries see (`from` only with a window).
struct Seen {
  int from[2], to[2];
};

// Logits to weights. With `masked` a row may have seen no key yet: then its maximum is -inf, its weights are 0.
template <bool first, bool masked>
__device__ __forceinline__ void softmax(float (&s)[KEYS / 2], Rows& rows, float scale) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float high[2] = {first ? minus_infinity() : rows.top[r], minus_infinity()};
#pragma unroll
    for (int j = 0; j < KEYS / 8; ++j)
#pragma unroll
      for (int e = 0; e < 2; ++e) high[e] = fmaxf(high[e], s[4 * j + 2 * r + e]);
    high[0] = fmaxf(high[0], high[1]);
    high[0] = fmaxf(high[0], __shfl_xor_sync(0xffffffffu, high[0], 1));
    high[0] = fmaxf(high[0], __shfl_xor_sync(0xffffffffu, high[0], 2));
    // Differences are scaled, not logits, whose products may be rounded by more than 1.
    const float base = masked && high[0] == minus_infinity() ? 0.0f : high[0];
    if (!first) rows.shrink[r] = exp2_fast((rows.top[r] - base) * scale);
    rows.top[r] = high[0];
    float part[2] = {};
#pragma unroll
    for (int j = 0; j < KEYS / 8; ++j)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float& x = s[4 * j + 2 * r + e];
        x = exp2_fast((x - base) * scale);
        part[e] += x;
      }
    rows.sum[r] = first ? part[0] + part[1] : fmaf(rows.sum[r], rows.shrink[r], part[0] + part[1]);
  }
}

__device__ __forceinline__ void mask(float (&s)[KEYS / 2], int first_key, const Seen& seen) {
#pragma unroll
  for (int j = 0; j < KEYS / 8; ++j)
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int key = first_key + 8 * j + e % 2;
      if (key >= seen.to[e / 2] || (kWindow && key < seen.from[e / 2])) s[4 * j + e] = minus_infinity();
    }
}

// Logits to capped ones, as multiples of the cap.
__device__ __forceinline__ void cap(float (&s)[KEYS / 2], float scale) {
#pragma unroll
  for (int i = 0; i < KEYS / 2; ++i) s[i] = tanh_fast(s[i] * scale);
}

__device__ __forceinline__ void to_weights(u32 (&p)[KEYS / 4], const float (&s)[KEYS / 2]) {
#pragma unroll
  for (int i = 0; i < KEYS / 4; ++i) p[i] = pack(s[2 * i], s[2 * i + 1]);
}

class Team {
 public:
  __device__ __forceinline__ Team(const Maps& maps, const Shape& shape, int heads, u32 memory, int number,
                                  void* o, float* lse, float scale, float softcap)
      : maps_(maps),
        shape_(shape),
        heads_(heads),
        memory_(memory),
        number_(number),
        lane_(threadIdx.x % 32),
        row_(threadIdx.x % 128 / 32 * 16 + lane_ / 4),
        o_(o),
        lse_(lse),
        scale_((kCapped ? softcap : scale) * 1.44269504f),
        cap_scale_(kCapped ? scale / softcap : 0.0f) {}

  __device__ __forceinline__ void work() {
    if (PING_PONG && number_ == TEAMS - 1) named_arrive(turn(0), 256);  // the first team begins
    int index = blockIdx.x;
    load_queries(index);
    while (index < shape_.tiles) {
      const Tile tile(index, shape_, heads_);
      if (tile.blocks == 0) {
        index = next_after(index);
        blind(tile);
        load_queries(index);
        continue;
      }
      index = attend(tile, index);
    }
    if (EPILOGUE == EPILOGUE_tma && leader()) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }

 private:
  __device__ __forceinline__ u32 barrier(int name, int index) const {
    return memory_ + kBarriersAt + 8 * (name + index);
  }
  __device__ __forceinline__ bool leader() const { return threadIdx.x % 128 == 0; }
  __device__ __forceinline__ int turn(int team) const { return 1 + team; }
  __device__ __forceinline__ int turn_after() const { return turn(number_ + 1 == TEAMS ? 0 : number_ + 1); }
  __device__ __forceinline__ void sync_team() const { named_sync(8 + number_, 128); }
  __device__ __forceinline__ u32 queries() const { return memory_ + number_ * kTileQ; }
  __device__ __forceinline__ void release(u32 b) const {
    if (lane_ == 0) barrier_arrive(b);
  }

  __device__ __forceinline__ void load_queries(int index) const {
    if (index >= shape_.tiles || !leader()) return;
    const Tile tile(index, shape_, heads_);
    if (tile.blocks == 0) return;
    barrier_expect(barrier(QFull, number_), kTileQ);
#pragma unroll
    for (int column = 0; column < kHead / 64; ++column)
      load_box(queries() + column * kColumnQ, maps_.q, barrier(QFull, number_), column * 64, tile.h,
               tile.first + 64 * number_, tile.b);
  }

  __device__ __forceinline__ int next_after(int index) {
    if (SCHEDULE == SCHEDULE_single) return shape_.tiles;
    if (SCHEDULE == SCHEDULE_strided) return index + gridDim.x;
    int next;
    barrier_wait(barrier(TileFull, slot_), slot_phase_);
    asm volatile("ld.shared.s32 %0, [%1];"
                 : "=r"(next)
                 : "r"(memory_ + kBarriersAt + 8 * Slots + 4 * slot_)
                 : "memory");
    __syncwarp();
    release(barrier(TileEmpty, slot_));
    if (++slot_ == 2) slot_ = 0, slot_phase_ ^= 1;
    return next;
  }

  // The next tile of keys, and P V of the one before.
  template <bool masked>
  __device__ __forceinline__ void step(float (&o)[kHead / 2], u32 (&p)[KEYS / 4], Rows& rows, int first_key,
                                       const Seen& seen) {
    float s[KEYS / 2];
    const u64 q = describe(queries(), 0), k = describe(memory_ + kKeysAt + keys_.stage * kTile, 0);
    const u64 v = describe(memory_ + kValuesAt + values_.stage * kTile, kColumn);
    barrier_wait(barrier(KFull, keys_.stage), keys_.phase);
    if (PING_PONG) named_sync(turn(number_), 256);
    products_begin();
    multiply_qk(s, q, k);
    products_commit();
    barrier_wait(barrier(VFull, values_.stage), values_.phase);
    products_begin();
    multiply_pv(o, p, v);
    products_commit();
    if (PING_PONG) named_arrive(turn_after(), 256);
    products_wait<OVERLAP>();
    pin(s);
    release(barrier(KEmpty, keys_.stage));
    if (kCapped) cap(s, cap_scale_);
    if (masked) mask(s, first_key, seen);
    softmax<false, masked>(s, rows, scale_);
    products_wait<0>();
    pin(o);
    release(barrier(VEmpty, values_.stage));
    keys_.advance();
    values_.advance();
    if (RESCALE == RESCALE_always ||
        __any_sync(0xffffffffu, rows.shrink[0] != 1.0f || rows.shrink[1] != 1.0f)) {
#pragma unroll
      for (int i = 0; i < kHead / 2; ++i) o[i] *= rows.shrink[i / 2 % 2];
    }
    to_weights(p, s);
  }

  // Gives the next tile.
  __device__ __forceinline__ int attend(const Tile& tile, int index) {
    const int first = tile.first + 64 * number_, column = lane_ % 4 * 2;
    Seen seen{{0, 0}, {shape_.S_kv, shape_.S_kv}};
    int open = 0, clear = shape_.S_kv / KEYS;  // blocks from `open` on and below `clear` need no mask
    if (kMasked || kWindow) {
      const int offset = shape_.S_kv - shape_.S_q + after(shape_);
      for (int r = 0; r < 2; ++r) seen.to[r] = min(shape_.S_kv, first + row_ + 8 * r + offset);
      clear = min(clear, max(first + offset, 0) / KEYS);
    }
    if (kWindow) {
      const int offset = shape_.S_kv - shape_.S_q - before(shape_);
      for (int r = 0; r < 2; ++r) seen.from[r] = first + row_ + 8 * r + offset;
      open = (max(first + 63 + offset, 0) + KEYS - 1) / KEYS;
    }
    float o[kHead / 2];
    u32 p[KEYS / 4];
    Rows rows;
    int block = tile.begin + tile.blocks - 1;
    barrier_wait(barrier(QFull, number_), query_phase_);
    query_phase_ ^= 1;
    {
      float s[KEYS / 2];
      barrier_wait(barrier(KFull, keys_.stage), keys_.phase);
      products_begin();
      multiply_qk(s, describe(queries(), 0), describe(memory_ + kKeysAt + keys_.stage * kTile, 0));
      products_commit();
      products_wait<0>();
      pin(s);
      release(barrier(KEmpty, keys_.stage));
      keys_.advance();
      if (kCapped) cap(s, cap_scale_);
      if (block >= clear || (kWindow && block < open)) mask(s, block * KEYS + column, seen);
      softmax<true, true>(s, rows, scale_);
      to_weights(p, s);
    }
#pragma unroll
    for (int i = 0; i < kHead / 2; ++i) o[i] = 0.0f;
    --block;
    if (kMasked || kWindow) {
#pragma unroll 1
      for (; block >= clear; --block) step<true>(o, p, rows, block * KEYS + column, seen);
    }
#pragma unroll 1
    for (; block >= open; --block) step<false>(o, p, rows, 0, seen);
    if (kWindow) {
#pragma unroll 1
      for (; block >= tile.begin; --block) step<true>(o, p, rows, block * KEYS + column, seen);
    }
    const int next = next_after(index);
    if (EPILOGUE == EPILOGUE_direct) {  // Q has been read by all four warps after this
      sync_team();
      load_queries(next);
    }
    barrier_wait(barrier(VFull, values_.stage), values_.phase);
    products_begin();
    multiply_pv(o, p, describe(memory_ + kValuesAt + values_.stage * kTile, kColumn));
    products_commit();
    products_wait<0>();
    pin(o);
    release(barrier(VEmpty, values_.stage));
    values_.advance();
    finish(tile, first, o, rows);
    if (EPILOGUE == EPILOGUE_tma) {
      if (leader()) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
      load_queries(next);
    }
    return next;
  }

  __device__ __forceinline__ void finish(const Tile& tile, int first, float (&o)[kHead / 2],
                                         Rows& rows) const {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float sum = rows.sum[r];
      sum += __shfl_xor_sync(0xffffffffu, sum, 1);
      sum += __shfl_xor_sync(0xffffffffu, sum, 2);
      const bool none = (kMasked || kWindow) && rows.top[r] == minus_infinity();
      const float factor = none ? 0.0f : 1.0f / sum;
#pragma unroll
      for (int i = 0; i < kHead / 8; ++i) o[4 * i + 2 * r] *= factor, o[4 * i + 2 * r + 1] *= factor;
      const int row = first + row_ + 8 * r;
      if (lane_ % 4 == 0 && row < shape_.S_q)
        lse_[(static_cast<long long>(tile.b) * shape_.H + tile.h) * shape_.S_q + row] =
            none ? minus_infinity() : (__fmul_rn(rows.top[r], scale_) + log2f(sum)) * 0.693147181f;
    }
    if (EPILOGUE == EPILOGUE_tma)
      store_shared(tile, first, o);
    else
      store_direct(tile, first, o);
  }

  // O takes this team's part of Q, in the same layout.
  __device__ __forceinline__ void store_shared(const Tile& tile, int first,
                                               const float (&o)[kHead / 2]) const {
    sync_team();  // every warp has read Q
    const u32 row = threadIdx.x % 128 / 32 * 16 + lane_ % 16, half = lane_ / 16;
#pragma unroll
    for (int i = 0; i < kHead / 16; ++i) {
      const u32 chunk = 2 * i + half;
      const u32 to = queries() + chunk / 8 * kColumnQ + row * 128 + ((chunk % 8) ^ (row % 8)) * 16;
      asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),
                   "r"(pack(o[8 * i], o[8 * i + 1])), "r"(pack(o[8 * i + 2], o[8 * i + 3])),
                   "r"(pack(o[8 * i + 4], o[8 * i + 5])), "r"(pack(o[8 * i + 6], o[8 * i + 7]))
                   : "memory");
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    sync_team();
    if (leader()) {
#pragma unroll
      for (int column = 0; column < kHead / 64; ++column)
        store_box(maps_.o, queries() + column * kColumnQ, column * 64, tile.h, first, tile.b);
      asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    }
  }

  __device__ __forceinline__ uint4* chunk_of(const Tile& tile, int row, int chunk) const {
    const long long at = (static_cast<long long>(tile.b) * shape_.S_q + row) * shape_.H + tile.h;
    return static_cast<uint4*>(o_) + at * (kHead / 8) + chunk;
  }

  // Four threads share a row, 2 elements of every 8; they swap until each has 8 in a row.
  __device__ __forceinline__ void store_direct(const Tile& tile, int first,
                                               const float (&o)[kHead / 2]) const {
    const int quarter = lane_ % 4;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = first + row_ + 8 * r;
#pragma unroll
      for (int i = 0; i < kHead / 32; ++i) {
        u32 x[4];
#pragma unroll
        for (int e = 0; e < 4; ++e) x[e] = pack(o[16 * i + 4 * e + 2 * r], o[16 * i + 4 * e + 2 * r + 1]);
        exchange(x[0], x[1], quarter & 1, 1);
        exchange(x[2], x[3], quarter & 1, 1);
        exchange(x[0], x[2], quarter & 2, 2);
        exchange(x[1], x[3], quarter & 2, 2);
        if (row < shape_.S_q) *chunk_of(tile, row, 4 * i + quarter) = make_uint4(x[0], x[1], x[2], x[3]);
      }
    }
  }

  // A transposition of 2 by 2 between lanes that differ in `bit`.
  __device__ __forceinline__ static void exchange(u32& low, u32& high, bool upper, int bit) {
    const u32 got = __shfl_xor_sync(0xffffffffu, upper ? low : high, bit);
    if (upper)
      low = got;
    else
      high = got;
  }

  // No query of the tile sees a key.
  __device__ __forceinline__ void blind(const Tile& tile) const {
    const int first = tile.first + 64 * number_;
    for (int i = threadIdx.x % 128; i < 64 * kHead / 8; i += 128) {
      const int row = first + i / (kHead / 8);
      if (row < shape_.S_q) *chunk_of(tile, row, i % (kHead / 8)) = make_uint4(0, 0, 0, 0);
    }
    const int row = first + threadIdx.x % 128;
    if (threadIdx.x % 128 < 64 && row < shape_.S_q)
      lse_[(static_cast<long long>(tile.b) * shape_.H + tile.h) * shape_.S_q + row] = minus_infinity();
  }

  const Maps& maps_;
  const Shape& shape_;
  const int heads_;
  const u32 memory_;
  const int number_, lane_, row_;  // row_: the first of this thread's two queries, in the team
  void* const o_;
  float* const lse_;
  const float scale_;      // for powers of two
  const float cap_scale_;  // logits to multiples of the cap
  Ring keys_, values_;
  u32 query_phase_ = 0, slot_phase_ = 0;
  int slot_ = 0;
};

}  // namespace

extern "C" __global__ void __launch_bounds__(128 * (TEAMS + 1), 1)
    attention_forward(const __grid_constant__ CUtensorMap map_q, const __grid_constant__ CUtensorMap map_k,
                      const __grid_constant__ CUtensorMap map_v, const __grid_constant__ CUtensorMap map_o,
                      void* o, float* lse, u32* ticket, int H, int group, int S_q, int S_kv, int m_blocks,
                      int tiles, int section, float scale, int window, float softcap) {
  extern __shared__ char shared[];
  const u32 memory = (static_cast<u32>(__cvta_generic_to_shared(shared)) + 1023) / 1024 * 1024;
  const Maps maps{&map_q, &map_k, &map_v, &map_o};
  const Shape shape{H, group, S_q, S_kv, m_blocks, tiles, section, window};
  const int heads = tiles / m_blocks;
  if (threadIdx.x == 0) {
    const u32 barriers = memory + kBarriersAt;
    for (int t = 0; t < TEAMS; ++t) barrier_init(barriers + 8 * (QFull + t), 1);
    for (int s = 0; s < STAGES; ++s) {
      barrier_init(barriers + 8 * (KFull + s), 1);
      barrier_init(barriers + 8 * (VFull + s), 1);
      barrier_init(barriers + 8 * (KEmpty + s), 4 * TEAMS);
      barrier_init(barriers + 8 * (VEmpty + s), 4 * TEAMS);
    }
    for (int s = 0; s < 2; ++s) {
      barrier_init(barriers + 8 * (TileFull + s), 1);
      barrier_init(barriers + 8 * (TileEmpty + s), 4 * TEAMS);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
  const int warpgroup = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);
  if (warpgroup == 0) {
    if (TEAMS == 2)
      asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    else
      asm volatile("setmaxnreg.dec.sync.aligned.u32 32;");
    if (threadIdx.x == 0) produce(maps, shape, heads, memory, ticket);
  } else {
    if (TEAMS == 2)
      asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    else
      asm volatile("setmaxnreg.inc.sync.aligned.u32 160;");
    Team(maps, shape, heads, memory, warpgroup - 1, o, lse, scale, softcap).work();
  }
}
