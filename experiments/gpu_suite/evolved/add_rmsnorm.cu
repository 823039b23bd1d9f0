/*--- cultivar
name: add_rmsnorm_bulk_ring
task: add_rmsnorm
target: cuda
about: "Persistent blocks: rows of x and r come by bulk copies into a ring in shared memory, rows ahead; w stays in registers; one barrier for each row. Short and odd rows: registers only."
tunables:
  VPT: {values: [1, 2, 4, 8], default: 4}
  RPT: {values: [1, 2, 4, 8], default: 4}
  STAGES: {values: [2, 3, 4, 6], default: 3}
specialize: [C, R, dtype]
let:
  row_bytes: "C * element_bytes"
  chunk: "row_bytes % 16 == 0 ? 16 : (row_bytes % 8 == 0 ? 8 : (row_bytes % 4 == 0 ? 4 : 2))"
  units: "floor_div(row_bytes, chunk)"
  lanes: "units <= 1 ? 1 : (units <= 2 ? 2 : (units <= 4 ? 4 : (units <= 8 ? 8 : (units <= 16 ? 16 : 32))))"
  pieces: "R >= 1024 ? VPT : (R >= 133 ? min(VPT, 2) : 1)"
  threads: "units <= 32 ? 256 : min(1024, round_up(ceil_div(units, pieces), 32))"
  ring_bytes: "512 + STAGES * 2 * row_bytes"
  ring: "chunk == 16 && units > 32 && R >= 256 && ring_bytes <= 200000 ? 1 : 0"
  shared_bytes: "ring == 1 ? ring_bytes : 512"
  resident: "num_sms * max(1, min(8, floor_div(smem_max + 1024, ring_bytes + 1024)))"
  blocks: "units <= 32 ? ceil_div(R, floor_div(256, lanes) * RPT) : (ring == 1 ? min(R, resident) : R)"
launch:
  - kernel: add_rmsnorm
    grid: [blocks, 1, 1]
    block: [threads, 1, 1]
    shared: shared_bytes
    args: [x, r, w, y, s, eps]
---*/

namespace {

#if defined(DTYPE_F32)
using Element = float;
#else
using Element = unsigned short;
#endif

// As in the manifest.
constexpr int ROW_BYTES = C * static_cast<int>(sizeof(Element));
constexpr int CHUNK = ROW_BYTES % 16 == 0 ? 16 : (ROW_BYTES % 8 == 0 ? 8 : (ROW_BYTES % 4 == 0 ? 4 : 2));
constexpr int VEC = CHUNK / static_cast<int>(sizeof(Element));
constexpr int UNITS = ROW_BYTES / CHUNK;
constexpr int LANES =
    UNITS <= 1 ? 1 : (UNITS <= 2 ? 2 : (UNITS <= 4 ? 4 : (UNITS <= 8 ? 8 : (UNITS <= 16 ? 16 : 32))));
constexpr int PIECES = R >= 1024 ? VPT : (R >= 133 ? (VPT < 2 ? VPT : 2) : 1);
constexpr int WANTED = ((UNITS + PIECES - 1) / PIECES + 31) / 32 * 32;
constexpr bool SHORT = UNITS <= 32;
constexpr int BLOCK = SHORT ? 256 : (WANTED < 1024 ? WANTED : 1024);
constexpr bool RING = CHUNK == 16 && !SHORT && R >= 256 && 512 + STAGES * 2 * ROW_BYTES <= 200000;
constexpr int ITEMS = (UNITS + BLOCK - 1) / BLOCK;
constexpr bool KEEP = ITEMS <= 8;
constexpr bool EARLY_WEIGHTS = ITEMS <= 4;
constexpr int WORDS = CHUNK >= 4 ? CHUNK / 4 : 1;
constexpr int PER_WORD = VEC / WORDS;
// More than the cache holds: what is written will not be found in it.
constexpr bool STREAM = 4LL * R * ROW_BYTES > 56LL * 1024 * 1024;

struct Chunk {
  unsigned word[4];
};

__device__ __forceinline__ Chunk zeros() {
  Chunk c;
  c.word[0] = c.word[1] = c.word[2] = c.word[3] = 0u;
  return c;
}

// Read once.
__device__ __forceinline__ Chunk load(const Element* p) {
  Chunk c = zeros();
  if constexpr (CHUNK == 16) {
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(c.word[0]), "=r"(c.word[1]), "=r"(c.word[2]), "=r"(c.word[3])
                 : "l"(p));
  } else if constexpr (CHUNK == 8) {
    asm volatile("ld.global.nc.L1::no_allocate.v2.u32 {%0, %1}, [%2];"
                 : "=r"(c.word[0]), "=r"(c.word[1])
                 : "l"(p));
  } else if constexpr (CHUNK == 4) {
    asm volatile("ld.global.nc.L1::no_allocate.u32 %0, [%1];" : "=r"(c.word[0]) : "l"(p));
  } else {
    unsigned short half;
    asm volatile("ld.global.nc.u16 %0, [%1];" : "=h"(half) : "l"(p));
    c.word[0] = half;
  }
  return c;
}

// Read by all blocks.
__device__ __forceinline__ Chunk load_shared_by_blocks(const Element* p) {
  Chunk c = zeros();
  if constexpr (CHUNK == 16) {
    asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(c.word[0]), "=r"(c.word[1]), "=r"(c.word[2]), "=r"(c.word[3])
                 : "l"(p));
  } else if constexpr (CHUNK == 8) {
    asm volatile("ld.global.nc.v2.u32 {%0, %1}, [%2];"
                 : "=r"(c.word[0]), "=r"(c.word[1])
                 : "l"(p));
  } else if constexpr (CHUNK == 4) {
    asm volatile("ld.global.nc.u32 %0, [%1];" : "=r"(c.word[0]) : "l"(p));
  } else {
    unsigned short half;
    asm volatile("ld.global.nc.u16 %0, [%1];" : "=h"(half) : "l"(p));
    c.word[0] = half;
  }
  return c;
}

__device__ __forceinline__ void store(Element* p, const Chunk& c) {
  if constexpr (CHUNK == 16) {
    if constexpr (STREAM)
      asm volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(c.word[0]), "r"(c.word[1]),
                   "r"(c.word[2]), "r"(c.word[3])
                   : "memory");
    else
      asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(c.word[0]), "r"(c.word[1]),
                   "r"(c.word[2]), "r"(c.word[3])
                   : "memory");
  } else if constexpr (CHUNK == 8) {
    asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(p), "r"(c.word[0]), "r"(c.word[1]) : "memory");
  } else if constexpr (CHUNK == 4) {
    asm volatile("st.global.u32 [%0], %1;" ::"l"(p), "r"(c.word[0]) : "memory");
  } else {
    const unsigned short half = static_cast<unsigned short>(c.word[0]);
    asm volatile("st.global.u16 [%0], %1;" ::"l"(p), "h"(half) : "memory");
  }
}

#if defined(DTYPE_F32)
__device__ __forceinline__ float low(unsigned word) { return __uint_as_float(word); }
__device__ __forceinline__ float high(unsigned) { return 0.0f; }
__device__ __forceinline__ unsigned pack(float lo, float) { return __float_as_uint(lo); }
#elif defined(DTYPE_F16)
__device__ __forceinline__ float from_half(unsigned short x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
  return y;
}
__device__ __forceinline__ float low(unsigned word) { return from_half(static_cast<unsigned short>(word)); }
__device__ __forceinline__ float high(unsigned word) {
  return from_half(static_cast<unsigned short>(word >> 16));
}
__device__ __forceinline__ unsigned pack(float lo, float hi) {
  unsigned word;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(hi), "f"(lo));
  return word;
}
#else
__device__ __forceinline__ float low(unsigned word) { return __uint_as_float(word << 16); }
__device__ __forceinline__ float high(unsigned word) { return __uint_as_float(word & 0xffff0000u); }
__device__ __forceinline__ unsigned pack(float lo, float hi) {
  unsigned word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(hi), "f"(lo));
  return word;
}
#endif

// The rounded sum, whose squares are added to `squares`.
__device__ __forceinline__ Chunk sum_of(const Chunk& a, const Chunk& b, float& squares) {
  Chunk c = zeros();
#pragma unroll
  for (int i = 0; i < WORDS; ++i) {
    const float lo = low(a.word[i]) + low(b.word[i]);
    const float hi = PER_WORD == 2 ? high(a.word[i]) + high(b.word[i]) : 0.0f;
    c.word[i] = pack(lo, hi);
    const float rounded_lo = low(c.word[i]);
    squares = fmaf(rounded_lo, rounded_lo, squares);
    if constexpr (PER_WORD == 2) {
      const float rounded_hi = high(c.word[i]);
      squares = fmaf(rounded_hi, rounded_hi, squares);
    }
  }
  return c;
}

__device__ __forceinline__ Chunk scaled(const Chunk& sums, const Chunk& weights, float factor) {
  Chunk c = zeros();
#pragma unroll
  for (int i = 0; i < WORDS; ++i) {
    const float lo = low(sums.word[i]) * factor * low(weights.word[i]);
    const float hi = PER_WORD == 2 ? high(sums.word[i]) * factor * high(weights.word[i]) : 0.0f;
    c.word[i] = pack(lo, hi);
  }
  return c;
}

__device__ __forceinline__ void short_rows(const Element* x, const Element* r, const Element* w, Element* y,
                                           Element* s, float eps) {
  constexpr int GROUPS = 256 / LANES;
  const int lane = static_cast<int>(threadIdx.x) % LANES;
  const int group = static_cast<int>(threadIdx.x) / LANES;
  const long long first_row = static_cast<long long>(blockIdx.x) * (GROUPS * RPT) + group;
  const bool inside = lane < UNITS;
  Chunk a[RPT], b[RPT];
#pragma unroll
  for (int i = 0; i < RPT; ++i) {
    const long long row = first_row + i * GROUPS;
    a[i] = b[i] = zeros();
    if (inside && row < R) {
      a[i] = load(x + row * C + lane * VEC);
      b[i] = load(r + row * C + lane * VEC);
    }
  }
  Chunk weights = zeros();
  if (inside) weights = load_shared_by_blocks(w + lane * VEC);
  float squares[RPT];
#pragma unroll
  for (int i = 0; i < RPT; ++i) {
    const long long row = first_row + i * GROUPS;
    squares[i] = 0.0f;
    a[i] = sum_of(a[i], b[i], squares[i]);
    if (inside && row < R) store(s + row * C + lane * VEC, a[i]);
  }
#pragma unroll
  for (int distance = LANES / 2; distance > 0; distance /= 2) {
#pragma unroll
    for (int i = 0; i < RPT; ++i) squares[i] += __shfl_xor_sync(0xffffffffu, squares[i], distance);
  }
#pragma unroll
  for (int i = 0; i < RPT; ++i) {
    const long long row = first_row + i * GROUPS;
    const float factor = rsqrtf(squares[i] * (1.0f / C) + eps);
    if (inside && row < R) store(y + row * C + lane * VEC, scaled(a[i], weights, factor));
  }
}

// Of all threads of the block; called once.
__device__ __forceinline__ float sum_over_block(float value) {
  constexpr int WARPS = BLOCK / 32;
  __shared__ float partial[32];
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(0xffffffffu, value, distance);
  if constexpr (WARPS == 1) return value;
  const int lane = threadIdx.x % 32;
  if (lane == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  value = lane < WARPS ? partial[lane] : 0.0f;
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(0xffffffffu, value, distance);
  return value;
}

__device__ __forceinline__ void long_row(const Element* x, const Element* r, const Element* w, Element* y,
                                         Element* s, float eps) {
  const long long first = static_cast<long long>(blockIdx.x) * C;
  const int tid = static_cast<int>(threadIdx.x);
  float squares = 0.0f;
  if constexpr (KEEP) {
    Chunk a[ITEMS], b[ITEMS], weights[ITEMS];
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      const int unit = tid + i * BLOCK;
      a[i] = b[i] = zeros();
      if ((i + 1) * BLOCK <= UNITS || unit < UNITS) {
        a[i] = load(x + first + unit * VEC);
        b[i] = load(r + first + unit * VEC);
      }
    }
    if constexpr (EARLY_WEIGHTS) {
#pragma unroll
      for (int i = 0; i < ITEMS; ++i) {
        const int unit = tid + i * BLOCK;
        weights[i] = zeros();
        if ((i + 1) * BLOCK <= UNITS || unit < UNITS) weights[i] = load_shared_by_blocks(w + unit * VEC);
      }
    }
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      const int unit = tid + i * BLOCK;
      a[i] = sum_of(a[i], b[i], squares);
      if ((i + 1) * BLOCK <= UNITS || unit < UNITS) store(s + first + unit * VEC, a[i]);
    }
    const float factor = rsqrtf(sum_over_block(squares) * (1.0f / C) + eps);
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      const int unit = tid + i * BLOCK;
      if ((i + 1) * BLOCK <= UNITS || unit < UNITS) {
        if constexpr (!EARLY_WEIGHTS) weights[i] = load_shared_by_blocks(w + unit * VEC);
        store(y + first + unit * VEC, scaled(a[i], weights[i], factor));
      }
    }
  } else {
    for (int unit = tid; unit < UNITS; unit += BLOCK)
      store(s + first + unit * VEC, sum_of(load(x + first + unit * VEC), load(r + first + unit * VEC), squares));
    const float factor = rsqrtf(sum_over_block(squares) * (1.0f / C) + eps);
    for (int unit = tid; unit < UNITS; unit += BLOCK) {
      float ignored = 0.0f;
      const Chunk sums = sum_of(load(x + first + unit * VEC), load(r + first + unit * VEC), ignored);
      store(y + first + unit * VEC, scaled(sums, load_shared_by_blocks(w + unit * VEC), factor));
    }
  }
}

__device__ __forceinline__ unsigned shared_address(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ void wait_for(unsigned barrier, unsigned parity) {
  unsigned done = 0;
  while (done == 0)
    asm volatile(
        "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
}

// The bytes of one row of both inputs.
__device__ __forceinline__ void request(const Element* x, const Element* r, long long row, unsigned stage,
                                        unsigned barrier) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(2 * ROW_BYTES)
               : "memory");
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(stage),
               "l"(x + row * C), "r"(ROW_BYTES), "r"(barrier)
               : "memory");
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   stage + ROW_BYTES),
               "l"(r + row * C), "r"(ROW_BYTES), "r"(barrier)
               : "memory");
}

// Shared memory: 2 x 32 partial sums, barriers from byte 256 on, stages from byte 512 on, each x then r.
__device__ __forceinline__ void ring_of_rows(const Element* x, const Element* r, const Element* w, Element* y,
                                             Element* s, float eps) {
  extern __shared__ __align__(1024) unsigned char memory[];
  constexpr int WARPS = BLOCK / 32;
  float* const partial = reinterpret_cast<float*>(memory);
  const unsigned barriers = shared_address(memory) + 256, stages = shared_address(memory) + 512;
  const int tid = static_cast<int>(threadIdx.x), lane = tid % 32;
  const int step = static_cast<int>(gridDim.x);
  const int first_row = static_cast<int>(blockIdx.x);
  if (tid == 0) {
    for (int i = 0; i < STAGES; ++i)
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barriers + 8 * i) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    for (int i = 0; i < STAGES; ++i) {
      const long long row = first_row + static_cast<long long>(i) * step;
      if (row < R) request(x, r, row, stages + i * 2 * ROW_BYTES, barriers + 8 * i);
    }
  }
  Chunk weights[ITEMS];
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    const int unit = tid + i * BLOCK;
    weights[i] = zeros();
    if ((i + 1) * BLOCK <= UNITS || unit < UNITS) weights[i] = load_shared_by_blocks(w + unit * VEC);
  }
  __syncthreads();  // the barriers are initialized
  int stage = 0;
  unsigned parity = 0, half = 0;
  for (long long row = first_row; row < R; row += step) {
    wait_for(barriers + 8 * stage, parity);
    const uint4* const of_x = reinterpret_cast<const uint4*>(memory + 512 + stage * 2 * ROW_BYTES);
    const uint4* const of_r = of_x + UNITS;
    Chunk a[ITEMS];
    float squares = 0.0f;
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      const int unit = tid + i * BLOCK;
      a[i] = zeros();
      if ((i + 1) * BLOCK <= UNITS || unit < UNITS) {
        const uint4 p = of_x[unit], q = of_r[unit];
        Chunk c, d;
        c.word[0] = p.x, c.word[1] = p.y, c.word[2] = p.z, c.word[3] = p.w;
        d.word[0] = q.x, d.word[1] = q.y, d.word[2] = q.z, d.word[3] = q.w;
        a[i] = sum_of(c, d, squares);
        store(s + row * C + unit * VEC, a[i]);
      }
    }
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2)
      squares += __shfl_xor_sync(0xffffffffu, squares, distance);
    if (lane == 0) partial[half * 32 + tid / 32] = squares;
    __syncthreads();  // all have read the stage, and the sums of the other half
    const long long later = row + static_cast<long long>(STAGES) * step;
    if (tid == 0 && later < R) request(x, r, later, stages + stage * 2 * ROW_BYTES, barriers + 8 * stage);
    squares = lane < WARPS ? partial[half * 32 + lane] : 0.0f;
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2)
      squares += __shfl_xor_sync(0xffffffffu, squares, distance);
    const float factor = rsqrtf(squares * (1.0f / C) + eps);
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      const int unit = tid + i * BLOCK;
      if ((i + 1) * BLOCK <= UNITS || unit < UNITS) store(y + row * C + unit * VEC, scaled(a[i], weights[i], factor));
    }
    half ^= 1u;
    if (++stage == STAGES) stage = 0, parity ^= 1u;
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(BLOCK)
    add_rmsnorm(const Element* x, const Element* r, const Element* w, Element* y, Element* s, float eps) {
  if constexpr (SHORT)
    short_rows(x, r, w, y, s, eps);
  else if constexpr (RING)
    ring_of_rows(x, r, w, y, s, eps);
  else
    long_row(x, r, w, y, s, eps);
}
