/*--- cultivar
name: linear_skinny
task: linear
target: cuda
about: "Few rows of x: the weights' rows ride in wgmma's M and the rows of x in its N; K is split over the blocks of a cluster, which add up their parts in shared memory."
requires: "dtype != f32 && K % 8 == 0 && M <= 64"
tunables:
  CONSUMERS: {values: [1, 2], default: 2}   # warpgroups that multiply, 64 rows of w each
  STAGES: {values: [3, 4, 6, 8, 10], default: 4}  # tiles in flight
  SPLIT: {values: [1, 2, 4, 8], default: 8}     # parts of K, at most
  WAVES: {values: [1, 2, 4], default: 2}        # blocks for a multiprocessor that the parts are chosen for
constraints:
  - "smem <= smem_max"
specialize: [dtype, WIDTH]
let:
  WIDTH: "M <= 8 ? 8 : M <= 16 ? 16 : M <= 32 ? 32 : 64"  # rows of x, in wgmma's N
  weights: "64 * CONSUMERS"  # rows of w in a tile
  smem: "STAGES * (weights + WIDTH) * 128 + 1024 + 256"  # 1024 to align, 256 for barriers
  n_tiles: "ceil_div(N, weights)"
  wanted: "2 ^ floor(log2(max(1, num_sms * WAVES / n_tiles)))"
  possible: "2 ^ floor(log2(max(1, K / 256)))"
  split: "min(SPLIT, min(wanted, possible))"
tensor_maps:
  map_x: {tensor: x, sizes: [K, M], strides: [K], box: [64, WIDTH], swizzle: 128B, l2_promotion: 128B}
  map_w: {tensor: w, sizes: [K, N], strides: [K], box: [64, weights], swizzle: 128B, l2_promotion: 256B}
launch:
  - kernel: linear
    grid: ["n_tiles * split", 1, 1]
    block: ["weights * 2 + 128", 1, 1]
    cluster: [split, 1, 1]
    shared: smem
    args: [map_x, map_w, bias, y, M, N, K, split, with_bias, gelu]
---*/

// A cluster has as many columns of y as a tile has rows of w, its blocks each a part of K. Products are kept transposed: rows of
// w by rows of x. The last warpgroup feeds the others through TMA, 64 of K at a time. At the end each block puts its products
// into shared memory, and each makes some rows of y from those of all, in a fixed order.

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
__device__ __forceinline__ void barrier_arrive(u32 barrier) {
  asm volatile("{ .reg .b64 t; mbarrier.arrive.shared::cta.b64 t, [%0]; }" ::"r"(barrier) : "memory");
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
#define FOUR(c, i) "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3])
#define EIGHT(c, i)                                                                           \
  "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3]), "+f"(c[i + 4]), "+f"(c[i + 5]), \
      "+f"(c[i + 6]), "+f"(c[i + 7])
#define REGISTERS_8 "%0, %1, %2, %3"
#define REGISTERS_16 REGISTERS_8 ", %4, %5, %6, %7"
#define REGISTERS_32 REGISTERS_16 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define REGISTERS_64 \
  REGISTERS_32 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define OPERANDS_8(c) FOUR(c, 0)
#define OPERANDS_16(c) FOUR(c, 0), FOUR(c, 4)
#define OPERANDS_32(c) OPERANDS_16(c), EIGHT(c, 8)
#define OPERANDS_64(c) OPERANDS_32(c), EIGHT(c, 16), EIGHT(c, 24)
#define AFTER_8(use) use("%4", "%5", "%6")
#define AFTER_16(use) use("%8", "%9", "%10")
#define AFTER_32(use) use("%16", "%17", "%18")
#define AFTER_64(use) use("%32", "%33", "%34")

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

// Enums, because NVRTC would make writable device globals of constants.
enum : int {
  kRows = 64 * CONSUMERS,  // of the weights
  kTileW = kRows * 128,
  kTileX = WIDTH * 128,
  kRowsOfXAt = STAGES * kTileW,
  kBarriersAt = kRowsOfXAt + STAGES * kTileX,
  kProductsAt = 0,           // in the place of the tiles, once these have been multiplied
  kPitch = kRows + 4,        // floats of one row of x in the products
  kColumns = 64 * CONSUMERS  // of y
};
enum : int { Full = 0, Empty = STAGES };  // barriers, 8 bytes each

}  // namespace

extern "C" __global__ void __launch_bounds__(128 * CONSUMERS + 128)
    linear(const __grid_constant__ CUtensorMap map_x, const __grid_constant__ CUtensorMap map_w,
           const Element* bias, Element* y, int M, int N, int K, int split, int with_bias, int gelu) {
  extern __shared__ char shared[];
  const u32 memory = (static_cast<u32>(__cvta_generic_to_shared(shared)) + 1023) / 1024 * 1024;
  const int rank = blockIdx.x % split, n = blockIdx.x / split * kColumns;
  const int steps = (K + 63) / 64, begin = steps * rank / split, end = steps * (rank + 1) / split;
  if (threadIdx.x == 0) {
    for (int s = 0; s < STAGES; ++s) {
      barrier_init(memory + kBarriersAt + 8 * (Full + s), 1);
      barrier_init(memory + kBarriersAt + 8 * (Empty + s), 4 * CONSUMERS);  // each warp that multiplies
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();

  const int warpgroup = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0), lane = threadIdx.x % 32;
  if (warpgroup == CONSUMERS) {
    if (threadIdx.x % 128 == 0) {
      Ring ring;
      for (int k = begin; k < end; ++k) {
        const u32 full = memory + kBarriersAt + 8 * (Full + ring.stage),
                  weights = memory + ring.stage * kTileW;
        barrier_wait(memory + kBarriersAt + 8 * (Empty + ring.stage), ring.phase ^ 1);
        barrier_expect(full, kTileW + kTileX);
        load_box(weights, &map_w, full, 64 * k, n);
        load_box(memory + kRowsOfXAt + ring.stage * kTileX, &map_x, full, 64 * k, 0);
        ring.advance();
      }
    }
    __syncwarp();
  } else {
    const auto release = [&](int stage) {
      if (lane == 0) barrier_arrive(memory + kBarriersAt + 8 * (Empty + stage));
    };
    Ring ring;
    float c[WIDTH / 2];
    int before = -1;  // the stage whose products may still be under way
    for (int k = begin; k < end; ++k) {
      barrier_wait(memory + kBarriersAt + 8 * (Full + ring.stage), ring.phase);
      products_begin();
      multiply(c, describe(memory + ring.stage * kTileW + warpgroup * 64 * 128),
               describe(memory + kRowsOfXAt + ring.stage * kTileX), k > begin);
      products_commit();
      products_wait<1>();
      if (before >= 0) release(before);
      before = ring.stage;
      ring.advance();
    }
    products_wait<0>();
    pin(c);
    asm volatile("bar.sync 1, %0;" ::"n"(128 * CONSUMERS) : "memory");  // nobody reads the tiles any more
    // Element 4 j + 2 r + e: row lane / 4 + 8 r of the warp's 16 rows of the weights, row 8 j + lane % 4 * 2 + e of x.
    const int row = warpgroup * 64 + threadIdx.x % 128 / 32 * 16 + lane / 4;
#pragma unroll
    for (int i = 0; i < WIDTH / 2; ++i) {
      const int m = i / 4 * 8 + lane % 4 * 2 + i % 2;
      asm volatile(
          "st.shared.f32 [%0], %1;" ::"r"(memory + kProductsAt + 4 * (m * kPitch + row + i / 2 % 2 * 8)),
          "f"(c[i])
          : "memory");
    }
  }
  cluster_sync();

  // Four products that follow each other, of all blocks.
  const auto sum_of = [&](int m, int i, int parts) {
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    for (int part = 0; part < parts; ++part) {
      float4 x;
      asm volatile(
          "{ .reg .b32 there; mapa.shared::cluster.u32 there, %4, %5; "
          "ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [there]; }"
          : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
          : "r"(memory + kProductsAt + 4 * (m * kPitch + i)), "r"(part)
          : "memory");
      sum.x += x.x, sum.y += x.y, sum.z += x.z, sum.w += x.w;
    }
    return sum;
  };
  const int quads = kColumns / 4;
  for (int at = rank * blockDim.x + threadIdx.x; at < M * quads; at += blockDim.x * split) {
    const int m = at / quads, i = at % quads * 4;
    if (n + i >= N) continue;
    const float4 sums = sum_of(m, i, split);
    float values[4] = {sums.x, sums.y, sums.z, sums.w};
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      if (with_bias && n + i + e < N) values[e] += widened(bias[n + i + e]);
      if (gelu) values[e] = gelu_of(values[e]);
    }
    Element* const to = y + static_cast<long long>(m) * N + n + i;
    const u32 low = pack(values[0], values[1]), high = pack(values[2], values[3]);
    if (N % 4 == 0) {
      *reinterpret_cast<uint2*>(to) = make_uint2(low, high);
    } else {
      const Element each[4] = {static_cast<Element>(low), static_cast<Element>(low >> 16),
                               static_cast<Element>(high), static_cast<Element>(high >> 16)};
#pragma unroll
      for (int e = 0; e < 4; ++e)
        if (n + i + e < N) to[e] = each[e];
    }
  }
  cluster_sync();  // others may still read this block's products
}
