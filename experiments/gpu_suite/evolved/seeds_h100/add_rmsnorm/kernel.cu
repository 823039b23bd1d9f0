/*--- cultivar
name: add_rmsnorm_bulk_ring
task: add_rmsnorm
target: cuda
about: "Persistent blocks; bulk copies bring tiles of x and r into a ring in shared memory, refilled at the barrier of the reduction; w and the sum stay in registers. Few or unaligned rows: vectors straight into registers."
requires: "dtype == bf16"
tunables:
  VECTORS: {values: [2, 4], default: 4}
  SHORT_ROWS: {values: [1, 2, 4], default: 2}
  FEW_VECTORS: {values: [1, 2], default: 1}  # of a thread, if there are at most as many rows as multiprocessors
  STAGES: {values: [2, 3, 4, 6], default: 6}
  BLOCKS: {values: [1, 2, 3, 4], default: 2}  # of a multiprocessor
  MIDDLE_VECTORS: {values: [1, 2, 4], default: 4}  # of a thread, with 1024 to 4095 rows
  STORES: {values: [plain, streaming, last], default: last}  # with the ring
specialize: [C, WIDTH, COUNT, LANES, GROUPS, ROWS, RING, DEPTH, MANY]
let:
  WIDTH: "C % 8 == 0 ? 8 : (C % 4 == 0 ? 4 : (C % 2 == 0 ? 2 : 1))"
  COUNT: "floor_div(C, WIDTH)"
  MANY: "R >= 1024 ? 1 : 0"
  per_thread: "R <= 132 ? FEW_VECTORS : (R < 1024 ? 2 : (R < 4096 ? MIDDLE_VECTORS : VECTORS))"
  LANES: "COUNT > 64 ? min(1024, round_up(ceil_div(COUNT, per_thread), 32)) : (COUNT > 16 ? 32 : (COUNT > 8 ? 16 : (COUNT > 4 ? 8 : 4)))"
  GROUPS: "LANES > 32 ? 1 : floor_div(256, LANES)"
  ROWS: "(LANES <= 32 && R >= 4096) ? SHORT_ROWS : 1"
  FIT: "floor_div(floor_div(224000, BLOCKS), 4 * GROUPS * ROWS * C)"
  RING: "(C % 8 == 0 && R >= 4096 && FIT >= 2 && COUNT <= 4 * LANES) ? 1 : 0"
  DEPTH: "RING == 1 ? min(STAGES, FIT) : 1"
  smem: "RING == 1 ? DEPTH * 4 * GROUPS * ROWS * C : 0"
  blocks: "RING == 1 ? min(ceil_div(R, GROUPS * ROWS), BLOCKS * num_sms) : ceil_div(R, GROUPS * ROWS)"
launch:
  - kernel: add_rmsnorm
    grid: [blocks, 1, 1]
    block: ["LANES * GROUPS", 1, 1]
    shared: smem
    args: [x, r, w, y, s, R, eps]
---*/

// A block walks over tiles (a wide row, or many short ones). The ring keeps DEPTH tiles in flight whatever the occupancy. A
// thread reads its vectors of a slot conflict-free (neighbours read neighbouring 16 bytes); the barrier of the row's sum also
// says that the slot was read, and the copy of the tile DEPTH later starts before the results are computed and stored.

// With many rows, results that lie in the L2 cache when the kernel ends need not have been written to memory yet. With few rows
// streaming stores measured 3 to 8 % faster.
#if MANY && STORES == STORES_plain
#define STORE_HOW ""
#define STORE_MORE(n)
#elif MANY && STORES == STORES_last
#define STORE_HOW ".L2::cache_hint"
#define STORE_MORE(n) ", %" #n
#define KEEPS 1
#else
#define STORE_HOW ".cs"
#define STORE_MORE(n)
#endif
#ifdef KEEPS
#define STORE_POLICY , "l"(policy_last())
#else
#define STORE_POLICY
#endif
// Does a row fit the registers of its threads?
#define KEPT (((COUNT + LANES - 1) / LANES) * ((WIDTH + 1) / 2) <= 16)
// Many rows without the ring: enough blocks resident that their loads cover the latency (48 registers for 2 vectors, 32 for one).
#if MANY && !RING && GROUPS == 1 && WIDTH == 8 && COUNT <= LANES
#define BOUNDS __launch_bounds__(LANES * GROUPS, 65536 / (LANES * GROUPS * 32))
#elif MANY && !RING && GROUPS == 1 && WIDTH == 8 && COUNT <= 2 * LANES
#define BOUNDS __launch_bounds__(LANES * GROUPS, 65536 / (LANES * GROUPS * 48))
#else
#define BOUNDS __launch_bounds__(LANES * GROUPS)
#endif

namespace {

using Element = unsigned short;
struct alignas(16) Vec {  // WIDTH elements in the first words
  unsigned v[4];
};
constexpr int WORDS = (WIDTH + 1) / 2;
constexpr int N = (COUNT + LANES - 1) / LANES;  // vectors of a thread and row

__device__ __forceinline__ float low(unsigned v) { return __uint_as_float(v << 16); }
__device__ __forceinline__ float high(unsigned v) { return __uint_as_float(v & 0xffff0000u); }
__device__ __forceinline__ unsigned packed(float lo, float hi) {
  unsigned v;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(v) : "f"(hi), "f"(lo));
  return v;
}

#define LOADER(NAME, HOW)                                                                        \
  __device__ __forceinline__ Vec NAME(const Element* p) {                                        \
    Vec a = {};                                                                                  \
    if constexpr (WIDTH == 8) {                                                                  \
      asm volatile("ld.global.nc" HOW ".v4.u32 {%0, %1, %2, %3}, [%4];"                          \
                   : "=r"(a.v[0]), "=r"(a.v[1]), "=r"(a.v[2]), "=r"(a.v[3])                      \
                   : "l"(p));                                                                    \
    } else if constexpr (WIDTH == 4) {                                                           \
      asm volatile("ld.global.nc" HOW ".v2.u32 {%0, %1}, [%2];" : "=r"(a.v[0]), "=r"(a.v[1]) : "l"(p)); \
    } else if constexpr (WIDTH == 2) {                                                           \
      asm volatile("ld.global.nc" HOW ".u32 %0, [%1];" : "=r"(a.v[0]) : "l"(p));                 \
    } else {                                                                                     \
      unsigned short h;                                                                          \
      asm volatile("ld.global.nc" HOW ".u16 %0, [%1];" : "=h"(h) : "l"(p));                      \
      a.v[0] = h;                                                                                \
    }                                                                                            \
    return a;                                                                                    \
  }
LOADER(load_once, ".L1::no_allocate")
LOADER(load_kept, "")

__device__ __forceinline__ unsigned long long policy_last() {
  unsigned long long policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

// The kernel never reads what it stores, so that other accesses may pass these.
__device__ __forceinline__ void store(Element* p, const Vec& a) {
  if constexpr (WIDTH == 8) {
    asm volatile("st.global" STORE_HOW ".v4.u32 [%0], {%1, %2, %3, %4}" STORE_MORE(5) ";"
                 :
                 : "l"(p), "r"(a.v[0]), "r"(a.v[1]), "r"(a.v[2]), "r"(a.v[3]) STORE_POLICY);
  } else if constexpr (WIDTH == 4) {
    asm volatile("st.global" STORE_HOW ".v2.u32 [%0], {%1, %2}" STORE_MORE(3) ";" : : "l"(p), "r"(a.v[0]), "r"(a.v[1]) STORE_POLICY);
  } else if constexpr (WIDTH == 2) {
    asm volatile("st.global" STORE_HOW ".u32 [%0], %1" STORE_MORE(2) ";" : : "l"(p), "r"(a.v[0]) STORE_POLICY);
  } else {
    asm volatile("st.global" STORE_HOW ".u16 [%0], %1" STORE_MORE(2) ";"
                 :
                 : "l"(p), "h"(static_cast<unsigned short>(a.v[0])) STORE_POLICY);
  }
}

struct Sums {  // of a vector, not rounded: the norm is of these
  float v[2 * WORDS];
};

// Adds the squares of a + b to `squares`, in f32.
__device__ __forceinline__ Sums add(const Vec& a, const Vec& b, float& squares) {
  Sums s;
  float q0 = 0.0f, q1 = 0.0f;
#pragma unroll
  for (int i = 0; i < WORDS; ++i) {
    s.v[2 * i] = low(a.v[i]) + low(b.v[i]);
    s.v[2 * i + 1] = high(a.v[i]) + high(b.v[i]);
    q0 = fmaf(s.v[2 * i], s.v[2 * i], q0);
    q1 = fmaf(s.v[2 * i + 1], s.v[2 * i + 1], q1);
  }
  squares += q0 + q1;
  return s;
}

__device__ __forceinline__ Vec rounded(const Sums& s) {
  Vec o = {};
#pragma unroll
  for (int i = 0; i < WORDS; ++i) o.v[i] = packed(s.v[2 * i], s.v[2 * i + 1]);
  return o;
}

__device__ __forceinline__ Vec scaled(const Sums& s, const Vec& g, float factor) {
  Vec o = {};
#pragma unroll
  for (int i = 0; i < WORDS; ++i)
    o.v[i] = packed(s.v[2 * i] * factor * low(g.v[i]), s.v[2 * i + 1] * factor * high(g.v[i]));
  return o;
}

// Is vector i = j * LANES + lane in the row? Known when it is compiled, but for the last j.
__device__ __forceinline__ bool inside(int j, int i) { return (j + 1) * LANES <= COUNT || i < COUNT; }

// A tile of one row always exists: then there are no predicates in the code.
__device__ __forceinline__ bool exists(int row, int R) { return GROUPS * ROWS == 1 || row < R; }

__device__ __forceinline__ float lanes_sum(float v) {
#pragma unroll
  for (int m = (LANES < 32 ? LANES : 32) / 2; m > 0; m /= 2) v += __shfl_xor_sync(0xffffffffu, v, m);
  return v;
}

// Over the LANES threads of a row; with a block barrier if these are more than a warp.
__device__ __forceinline__ float row_sum(float v, float* partial) {
  v = lanes_sum(v);
  if constexpr (LANES > 32) {
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = v;
    __syncthreads();
    constexpr int WARPS = LANES / 32;
    float t[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
    for (int i = 0; i + 4 <= WARPS; i += 4) {
      const float4 four = *reinterpret_cast<const float4*>(partial + i);
      t[0] += four.x;
      t[1] += four.y;
      t[2] += four.z;
      t[3] += four.w;
    }
#pragma unroll
    for (int i = WARPS / 4 * 4; i < WARPS; ++i) t[i % 4] += partial[i];
    v = (t[0] + t[1]) + (t[2] + t[3]);
  }
  return v;
}

__device__ __forceinline__ float factor_of(float sum, float eps) { return rsqrtf(sum * (1.0f / C) + eps); }

#if RING
constexpr int TILE = GROUPS * ROWS;  // rows
constexpr int HALF = 2 * TILE * C;   // bytes of a tile of one tensor

// x and r of a tile into a slot of the ring: rows are contiguous, so a tile is one copy for each.
__device__ __forceinline__ void fetch(const Element* x, const Element* r, int R, int tile, unsigned to, unsigned bar) {
  const int left = R - tile * TILE;
  const unsigned bytes = static_cast<unsigned>(left < TILE ? left : TILE) * (2 * C);
  const long long at = static_cast<long long>(tile) * TILE * C;
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" : : "r"(bar), "r"(2 * bytes) : "memory");
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               :
               : "r"(to), "l"(x + at), "r"(bytes), "r"(bar)
               : "memory");
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               :
               : "r"(to + HALF), "l"(r + at), "r"(bytes), "r"(bar)
               : "memory");
}

__device__ __forceinline__ void await(unsigned bar, unsigned parity) {
  unsigned done = 0;
  while (done == 0) {
    asm volatile(
        "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
        : "=r"(done)
        : "r"(bar), "r"(parity)
        : "memory");
  }
}

__device__ __forceinline__ Vec get(const unsigned char* p) {
  const uint4 u = *reinterpret_cast<const uint4*>(p);
  return Vec{{u.x, u.y, u.z, u.w}};
}
#endif

}  // namespace

extern "C" __global__ void BOUNDS
    add_rmsnorm(const Element* x, const Element* r, const Element* w, Element* y, Element* s, int R,
                float eps) {
#if RING
  extern __shared__ __align__(128) unsigned char ring[];
  __shared__ __align__(8) unsigned long long full[DEPTH];
  __shared__ __align__(16) float partial[2][32];
  const unsigned bars = static_cast<unsigned>(__cvta_generic_to_shared(full));
  const unsigned slots = static_cast<unsigned>(__cvta_generic_to_shared(ring));
  const int total = (R + TILE - 1) / TILE, step = gridDim.x;
  const int lane = threadIdx.x % LANES, group = threadIdx.x / LANES;
  if (threadIdx.x == 0) {
    for (int d = 0; d < DEPTH; ++d)
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" : : "r"(bars + 8 * d) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");
    asm volatile("fence.proxy.async.shared::cta;" : : : "memory");
    for (int d = 0; d < DEPTH; ++d) {
      const int tile = static_cast<int>(blockIdx.x) + d * step;
      if (tile < total) fetch(x, r, R, tile, slots + d * (2 * HALF), bars + 8 * d);
    }
  }
  Vec g[N];  // w stays in registers
#pragma unroll
  for (int j = 0; j < N; ++j) {
    g[j] = Vec{};
    if (inside(j, j * LANES + lane)) g[j] = load_kept(w + (j * LANES + lane) * WIDTH);
  }
  __syncthreads();
  int slot = 0, flip = 0;
  unsigned parity = 0;
  for (int tile = blockIdx.x; tile < total; tile += step) {
    await(bars + 8 * slot, parity);
    const unsigned char* const from = ring + slot * (2 * HALF);
    const int first = tile * TILE + group;
    Sums a[ROWS][N];
    float sum[ROWS];
#pragma unroll
    for (int k = 0; k < ROWS; ++k) {
      const int row = first + k * GROUPS;
      const long long base = static_cast<long long>(row) * C;
      sum[k] = 0.0f;
#pragma unroll
      for (int j = 0; j < N; ++j) {
        const int i = j * LANES + lane;
        a[k][j] = Sums{};
        if (exists(row, R) && inside(j, i)) {
          const unsigned char* const p = from + ((k * GROUPS + group) * C + i * WIDTH) * 2;
          a[k][j] = add(get(p), get(p + HALF), sum[k]);
          store(s + base + i * WIDTH, rounded(a[k][j]));
        }
      }
    }
    // ROWS is 1 if row_sum has a barrier; otherwise there is one here. After it the slot is free.
#pragma unroll
    for (int k = 0; k < ROWS; ++k) sum[k] = row_sum(sum[k], partial[flip]);
    if constexpr (LANES <= 32) __syncthreads();
    if (threadIdx.x == 0 && tile + DEPTH * step < total)
      fetch(x, r, R, tile + DEPTH * step, slots + slot * (2 * HALF), bars + 8 * slot);
#pragma unroll
    for (int k = 0; k < ROWS; ++k) {
      const int row = first + k * GROUPS;
      const long long base = static_cast<long long>(row) * C;
      const float factor = factor_of(sum[k], eps);
#pragma unroll
      for (int j = 0; j < N; ++j) {
        const int i = j * LANES + lane;
        if (exists(row, R) && inside(j, i)) store(y + base + i * WIDTH, scaled(a[k][j], g[j], factor));
      }
    }
    flip ^= 1;
    if (++slot == DEPTH) {
      slot = 0;
      parity ^= 1;
    }
  }
#else
  __shared__ __align__(16) float partial[2][32];
#if KEPT
  const int lane = threadIdx.x % LANES;
  const int first = blockIdx.x * (GROUPS * ROWS) + threadIdx.x / LANES;
  Vec a[ROWS][N], b[ROWS][N], g[N];
#pragma unroll
  for (int k = 0; k < ROWS; ++k) {
    const int row = first + k * GROUPS;
    const long long base = static_cast<long long>(row) * C;
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const int i = j * LANES + lane;
      a[k][j] = b[k][j] = Vec{};
      if (exists(row, R) && inside(j, i)) {
        a[k][j] = load_once(x + base + i * WIDTH);
        b[k][j] = load_once(r + base + i * WIDTH);
      }
    }
  }
#pragma unroll
  for (int j = 0; j < N; ++j) {
    g[j] = Vec{};
    if (inside(j, j * LANES + lane)) g[j] = load_kept(w + (j * LANES + lane) * WIDTH);
  }
  Sums c[ROWS][N];
  float sum[ROWS];
#pragma unroll
  for (int k = 0; k < ROWS; ++k) {
    const int row = first + k * GROUPS;
    const long long base = static_cast<long long>(row) * C;
    sum[k] = 0.0f;
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const int i = j * LANES + lane;
      c[k][j] = add(a[k][j], b[k][j], sum[k]);
      if (exists(row, R) && inside(j, i)) store(s + base + i * WIDTH, rounded(c[k][j]));
    }
  }
#pragma unroll
  for (int k = 0; k < ROWS; ++k) sum[k] = row_sum(sum[k], partial[0]);  // ROWS is 1 if there is a barrier
#pragma unroll
  for (int k = 0; k < ROWS; ++k) {
    const int row = first + k * GROUPS;
    const long long base = static_cast<long long>(row) * C;
    const float factor = factor_of(sum[k], eps);
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const int i = j * LANES + lane;
      if (exists(row, R) && inside(j, i)) store(y + base + i * WIDTH, scaled(c[k][j], g[j], factor));
    }
  }
#else
  // Wider than the registers (then GROUPS and ROWS are 1): x and r are read twice.
  int flip = 0;
  for (int row = blockIdx.x; row < R; row += gridDim.x, flip ^= 1) {
    const long long base = static_cast<long long>(row) * C;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < COUNT; i += LANES) {
      store(s + base + i * WIDTH, rounded(add(load_kept(x + base + i * WIDTH), load_kept(r + base + i * WIDTH), sum)));
    }
    const float factor = factor_of(row_sum(sum, partial[flip]), eps);
    for (int i = threadIdx.x; i < COUNT; i += LANES) {
      const Sums a = add(load_kept(x + base + i * WIDTH), load_kept(r + base + i * WIDTH), sum);
      store(y + base + i * WIDTH, scaled(a, load_kept(w + i * WIDTH), factor));
    }
  }
#endif
#endif
}
