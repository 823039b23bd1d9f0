/*--- cultivar
name: linear_wgmma
task: linear
target: cuda
about: "Hopper: resident blocks take tile after tile; one warp feeds them through TMA, two warpgroups multiply with wgmma; two blocks share tiles of the weights by multicast."
requires: "dtype != f32 && K % 8 == 0"
tunables:
  BLOCK_N: {values: [128, 192, 256], default: 256}  # rows of w in a tile
  STAGES: {values: [3, 4, 5, 6], default: 4}        # tiles in flight
  CLUSTER: {values: [1, 2], default: 2}             # blocks that share the weights' tiles
  GROUP: {values: [1, 2, 4, 8, 16, 32], default: 8}  # pairs of row blocks that are worked on before the next columns
constraints:
  - "smem <= smem_max"
specialize: [dtype, PAIR]
let:
  PAIR: "CLUSTER == 2 && M > 128 ? 2 : 1"
  smem: "STAGES * (128 + BLOCK_N) * 128 + 1024 + 256"  # 1024 to align, 256 for barriers
  columns: "BLOCK_N"  # of y, in a tile
  m_pairs: "ceil_div(M, 128 * PAIR)"
  n_tiles: "ceil_div(N, columns)"
tensor_maps:
  map_x: {tensor: x, sizes: [K, M], strides: [K], box: [64, 128], swizzle: 128B, l2_promotion: 128B}
  map_w: {tensor: w, sizes: [K, N], strides: [K], box: [64, BLOCK_N / PAIR], swizzle: 128B, l2_promotion: 256B}
launch:
  - kernel: linear
    grid: ["PAIR * min(floor(num_sms / PAIR), m_pairs * n_tiles)", 1, 1]
    block: [384, 1, 1]
    cluster: [PAIR, 1, 1]
    shared: smem
    args: [map_x, map_w, bias, y, M, N, K, m_pairs, n_tiles, with_bias, gelu]
---*/

// A tile of y has 128 rows, 64 for each of two warpgroups, and BLOCK_N columns. The first
// warpgroup gives its registers away; one thread of it copies tiles of x and of the weights, 64 of K wide, into a ring of
// STAGES buffers with TMA's 128-byte swizzle. Two blocks of a cluster have the same columns and rows that follow each other: each
// copies one half of the weights to both. TMA fills with zeros what lies outside of a matrix.

#define WIDTH BLOCK_N

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
// x / 2 * (1 + tanh(u)) = x / (1 + e^-2u) with u = sqrt(2 / pi) * (x + 0.044715 x^3)
__device__ __forceinline__ float gelu_of(float x) {
  const float u = 0.797884561f * fmaf(0.044715f * x * x, x, x);
  return x * reciprocal(1.0f + exp2_fast(-2.88539008f * u));
}

// --- Barriers ---

__device__ __forceinline__ void barrier_init(u32 barrier, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
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
// At the barrier that lies at the same place in another block of the cluster.
__device__ __forceinline__ void barrier_arrive(u32 barrier, u32 rank) {
  asm volatile(
      "{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1; "
      "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there]; }" ::"r"(barrier),
      "r"(rank)
      : "memory");
}

__device__ __forceinline__ u32 rank_in_cluster() {
  u32 rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
}

struct Ring {
  int stage = 0;
  u32 phase = 0;
  __device__ __forceinline__ void advance() {
    if (++stage == STAGES) stage = 0, phase ^= 1;
  }
};

// --- Copies ---

__device__ __forceinline__ void load_box(u32 to, const CUtensorMap* map, u32 barrier, int k, int row) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, "
      "%4}], [%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(k), "r"(row)
      : "memory");
}
// To the same place in both blocks of a pair, each of which counts the bytes at its own barrier.
__device__ __forceinline__ void load_box_for_both(u32 to, const CUtensorMap* map, u32 barrier, int k,
                                                  int row) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%3, %4}], [%2], %5;" ::"r"(to),
      "l"(map), "r"(barrier), "r"(k), "r"(row), "h"(static_cast<unsigned short>(3))
      : "memory");
}

// --- Products ---

// Rows of 128 bytes with the 128-byte swizzle; 8 rows follow each other.
__device__ __forceinline__ u64 describe(u32 address) {
  return 1ull << 62 | static_cast<u64>(1024 >> 4) << 32 | (address >> 4);
}

// Register lists by width, since the text of an instruction names each register.
#define JOINED(a, b) a##b
#define JOIN(a, b) JOINED(a, b)
#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#define EIGHT(c, i)                                                                           \
  "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3]), "+f"(c[i + 4]), "+f"(c[i + 5]), \
      "+f"(c[i + 6]), "+f"(c[i + 7])
#define REGISTERS_64                                                                                     \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, " \
  "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define REGISTERS_128                                                                                 \
  REGISTERS_64                                                                                        \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, " \
  "%51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define REGISTERS_192                                                                                 \
  REGISTERS_128                                                                                       \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, " \
  "%83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define REGISTERS_256                                                                                    \
  REGISTERS_192                                                                                          \
  ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, " \
  "%113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define OPERANDS_64(c) EIGHT(c, 0), EIGHT(c, 8), EIGHT(c, 16), EIGHT(c, 24)
#define OPERANDS_128(c) OPERANDS_64(c), EIGHT(c, 32), EIGHT(c, 40), EIGHT(c, 48), EIGHT(c, 56)
#define OPERANDS_192(c) OPERANDS_128(c), EIGHT(c, 64), EIGHT(c, 72), EIGHT(c, 80), EIGHT(c, 88)
#define OPERANDS_256(c) OPERANDS_192(c), EIGHT(c, 96), EIGHT(c, 104), EIGHT(c, 112), EIGHT(c, 120)
#define AFTER_64(use) use("%32", "%33", "%34")
#define AFTER_128(use) use("%64", "%65", "%66")
#define AFTER_192(use) use("%96", "%97", "%98")
#define AFTER_256(use) use("%128", "%129", "%130")

#define SHAPE(n) \
  "wgmma.mma_async.sync.aligned.m64n" TEXT(n) "k16.f32." TYPE "." TYPE " {" JOIN(REGISTERS_, n) "}, "
#define CHOICE(a, b, s) "{ .reg .pred p; setp.ne.b32 p, " s ", 0; "
#define OPERANDS(a, b, s) a ", " b ", p, 1, 1, 0, 0; }"

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

// c += A B over 64 of K, of 64 rows of A and WIDTH rows of B. With `more` 0, c is overwritten.
__device__ __forceinline__ void multiply(float (&c)[WIDTH / 2], u64 a, u64 b, int more) {
#pragma unroll
  for (int step = 0; step < 4; ++step)
    asm volatile(JOIN(AFTER_, WIDTH)(CHOICE) SHAPE(WIDTH) JOIN(AFTER_, WIDTH)(OPERANDS)
                 : JOIN(OPERANDS_, WIDTH)(c)
                 : "l"(a + 2 * step), "l"(b + 2 * step), "r"(step == 0 ? more : 1));
}
// A transposition of 2 by 2 between lanes that differ in `bit`.
__device__ __forceinline__ void exchange(u32& low, u32& high, bool upper, int bit) {
  const u32 got = __shfl_xor_sync(0xffffffffu, upper ? low : high, bit);
  if (upper)
    low = got;
  else
    high = got;
}

// Eight elements of a row of y, from column `n` on.
__device__ __forceinline__ void store_eight(Element* y, long long row, int n, int N, const u32 (&x)[4]) {
  Element* const to = y + row * N + n;
  if (N % 8 == 0) {
    if (n < N) *reinterpret_cast<uint4*>(to) = make_uint4(x[0], x[1], x[2], x[3]);
  } else {
#pragma unroll
    for (int e = 0; e < 8; ++e)
      if (n + e < N) to[e] = static_cast<Element>(x[e / 2] >> 16 * (e % 2));
  }
}

// --- Tiles ---

// Enums, because NVRTC would make writable device globals of constants.
enum : int {
  kTileX = 128 * 128,
  kTileW = WIDTH * 128,
  kWeightsAt = STAGES * kTileX,
  kBarriersAt = kWeightsAt + STAGES * kTileW,
  kColumns = WIDTH
};
enum : int { Full = 0, Empty = STAGES };  // barriers, 8 bytes each

struct Shape {
  int M, N, K, m_pairs, n_tiles;
};
struct Maps {
  const CUtensorMap *x, *w;
};

struct Tile {
  int m, n;  // the first row and column of y

  // GROUP pairs of row blocks at a time, so that tiles of both inputs are met again in the L2 cache.
  __device__ __forceinline__ Tile(int index, const Shape& shape, int rank) {
    const int each = GROUP * shape.n_tiles, group = index / each, rest = index - group * each;
    const int high = min(GROUP, shape.m_pairs - group * GROUP);
    m = ((group * GROUP + rest % high) * PAIR + rank) * 128;
    n = rest / high * kColumns;
  }
};

// One thread feeds this block, and its half of the weights both blocks of the pair.
__device__ __forceinline__ void produce(const Maps& maps, const Shape& shape, u32 memory, u32 rank) {
  Ring ring;
  const int pairs = shape.m_pairs * shape.n_tiles, clusters = gridDim.x / PAIR;
  for (int index = blockIdx.x / PAIR; index < pairs; index += clusters) {
    const Tile tile(index, shape, rank);
    const int n = tile.n;
    for (int k = 0; k < shape.K; k += 64) {
      const u32 full = memory + kBarriersAt + 8 * (Full + ring.stage);
      const u32 weights = memory + kWeightsAt + ring.stage * kTileW;
      barrier_wait(memory + kBarriersAt + 8 * (Empty + ring.stage), ring.phase ^ 1);
      barrier_expect(full, kTileX + kTileW);
      load_box(memory + ring.stage * kTileX, maps.x, full, k, tile.m);
      const int half = WIDTH / PAIR * static_cast<int>(rank);
      if (PAIR == 2)
        load_box_for_both(weights + half * 128, maps.w, full, k, n + half);
      else
        load_box(weights, maps.w, full, k, n);
      ring.advance();
    }
  }
}

// Products to elements of y. A thread has 2 of every 8 columns of two rows, 8 apart; the four threads of a row swap until
// each has 8 in a row.
__device__ __forceinline__ void finish(const Element* bias, Element* y, const Tile& tile, const Shape& shape,
                                       bool gelu, float (&c)[WIDTH / 2]) {
  const int lane = threadIdx.x % 32, quarter = lane % 4;
  const int first = tile.m + (threadIdx.x / 128 - 1) * 64 + threadIdx.x % 128 / 32 * 16 + lane / 4;
  if (bias != nullptr) {
#pragma unroll
    for (int j = 0; j < WIDTH / 8; ++j)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int n = tile.n + 8 * j + 2 * quarter + e;
        const float b = n < shape.N ? widened(bias[n]) : 0.0f;
        c[4 * j + e] += b, c[4 * j + 2 + e] += b;
      }
  }
  if (gelu) {
#pragma unroll
    for (int i = 0; i < WIDTH / 2; ++i) c[i] = gelu_of(c[i]);
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = first + 8 * r;
#pragma unroll
    for (int i = 0; i < WIDTH / 32; ++i) {
      u32 x[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) x[e] = pack(c[16 * i + 4 * e + 2 * r], c[16 * i + 4 * e + 2 * r + 1]);
      exchange(x[0], x[1], quarter & 1, 1);
      exchange(x[2], x[3], quarter & 1, 1);
      exchange(x[0], x[2], quarter & 2, 2);
      exchange(x[1], x[3], quarter & 2, 2);
      if (row < shape.M) store_eight(y, row, tile.n + 32 * i + 8 * quarter, shape.N, x);
    }
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(384, 1)
    linear(const __grid_constant__ CUtensorMap map_x, const __grid_constant__ CUtensorMap map_w,
           const Element* bias, Element* y, int M, int N, int K, int m_pairs, int n_tiles, int with_bias,
           int gelu) {
  extern __shared__ char shared[];
  const u32 memory = (static_cast<u32>(__cvta_generic_to_shared(shared)) + 1023) / 1024 * 1024;
  const u32 rank = PAIR == 2 ? rank_in_cluster() : 0;
  const Maps maps{&map_x, &map_w};
  const Shape shape{M, N, K, m_pairs, n_tiles};
  if (threadIdx.x == 0) {
    for (int s = 0; s < STAGES; ++s) {
      barrier_init(memory + kBarriersAt + 8 * (Full + s), 1);
      barrier_init(memory + kBarriersAt + 8 * (Empty + s),
                   8 * PAIR);  // each warp that multiplies, in both blocks
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
  if (PAIR == 2) cluster_sync();  // both have their barriers

  const int warpgroup = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);
  if (warpgroup == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    if (threadIdx.x == 0) produce(maps, shape, memory, rank);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    const u32 lane = threadIdx.x % 32;
    const auto release = [&](int stage) {
      if (lane < PAIR)
        barrier_arrive(memory + kBarriersAt + 8 * (Empty + stage), PAIR == 2 ? lane : rank_in_cluster());
    };
    Ring ring;
    const int pairs = m_pairs * n_tiles, clusters = gridDim.x / PAIR;
    for (int index = blockIdx.x / PAIR; index < pairs; index += clusters) {
      const Tile tile(index, shape, rank);
      float c[WIDTH / 2];
      int before = -1;  // the stage whose products may still be under way
      for (int k = 0; k < K; k += 64) {
        barrier_wait(memory + kBarriersAt + 8 * (Full + ring.stage), ring.phase);
        products_begin();
        multiply(c, describe(memory + ring.stage * kTileX + (warpgroup - 1) * 64 * 128),
                 describe(memory + kWeightsAt + ring.stage * kTileW), k > 0);
        products_commit();
        products_wait<1>();
        if (before >= 0) release(before);
        before = ring.stage;
        ring.advance();
      }
      products_wait<0>();
      pin(c);
      release(before);
      finish(with_bias ? bias : nullptr, y, tile, shape, gelu != 0, c);
    }
  }
  if (PAIR == 2) cluster_sync();  // the other block still writes to this one's memory
}
