/*--- cultivar
name: softmax_exponentials_once
task: softmax
target: cuda
about: "Row read once in 16-byte loads; maxima on packed pairs; each exponential is computed once and kept (f32, or f16 pairs scaled by 2^15), then multiplied by one factor per warp; one barrier per row, clusters for wide rows."
requires: "dtype == bf16 && C <= 500000"
tunables:
  PER_THREAD: {values: [2, 3, 4], default: 2}  # 16-byte vectors of a thread, where the width allows it
  KEEP_F32: {values: [2, 4], default: 2}  # up to so many vectors per thread the exponentials are kept as f32
  SHORT_BLOCK: {values: [128, 256], default: 128}  # threads of a block that has several rows
  BOTH: {values: [0, 1, 2], default: 2}  # registers and shared memory: 1 for half as big clusters, 2 also for three blocks of wide rows
specialize: [C, dtype, VECS, LANES, CLUSTER, PART, BLOCK, VPT, DEEP]
constraints: ["bytes_shared + 4096 <= smem_max"]
let:
  VECS: "ceil_div(C + ((C % 8) == 0 ? 0 : 7), 8)"
  NEED: "ceil_div(VECS, PER_THREAD)"
  LANES: "NEED <= 1 ? 1 : (NEED <= 2 ? 2 : (NEED <= 4 ? 4 : (NEED <= 8 ? 8 : (NEED <= 16 ? 16 : (VECS <= 128 ? 32 : 0)))))"
  HALF: "(BOTH >= 1 && VECS > 4096 && R * VECS >= 8000000) ? 1 : 0"
  CLUSTER: "VECS <= 4096 * (1 + HALF) ? 1 : (VECS <= 8192 * (1 + HALF) ? 2 : (VECS <= 16384 * (1 + HALF) ? 4 : 8))"
  PART: "ceil_div(VECS, CLUSTER)"
  BLOCK: "LANES > 0 ? SHORT_BLOCK : min(512, round_up(ceil_div(PART, PER_THREAD), 32))"
  THIRD: "(BOTH >= 2 && CLUSTER == 1 && PART > 2560 && PART <= 4096 && R >= 1024) ? 1 : 0"
  VPT: "HALF == 1 ? 8 : (THIRD == 1 ? 4 : ceil_div(PART, LANES > 0 ? LANES : BLOCK))"
  DEEP: "LANES > 0 ? 0 : ceil_div(max(0, PART - VPT * BLOCK), BLOCK)"
  bytes_shared: "DEEP * BLOCK * 16"
  ROWS: "LANES > 0 ? floor_div(SHORT_BLOCK, max(LANES, 1)) : 1"
launch:
  - kernel: softmax
    grid: ["LANES > 0 ? ceil_div(R, ROWS) : R * CLUSTER", 1, 1]
    block: [BLOCK, 1, 1]
    cluster: [CLUSTER, 1, 1]
    shared: bytes_shared
    args: [x, y, R]
---*/

// A row is covered by vectors of 8 elements that begin at multiples of 16 bytes. If C is no multiple of 8, the first and the
// last vector of a row also hold elements of its neighbours: they are read (inside the tensor), masked, and not written.
// A thread has VPT vectors in registers, and DEEP more in shared memory, which only it reads and writes.

namespace {

constexpr float kLog2e = 1.4426950408889634f;
constexpr unsigned kNone = 0xff80ff80u;  // -inf, twice
constexpr bool kAligned = C % 8 == 0;
constexpr int kStep = LANES > 0 ? LANES : BLOCK;   // threads that share a part of a row
constexpr int kWidth = LANES > 0 ? LANES : 32;     // lanes that reduce by shuffles
constexpr int kWarps = BLOCK / 32;
constexpr int kSlots = CLUSTER * kWarps;
constexpr int kSlotsPerLane = (kSlots + 31) / 32;
// Lanes with different slots: where there are fewer than 32, groups of so many lanes of a warp do all the same.
constexpr int kFold = kSlots > 16 ? 32 : (kSlots > 8 ? 16 : (kSlots > 4 ? 8 : (kSlots > 2 ? 4 : 2)));
constexpr int kMinBlocks = (BLOCK == 512 && DEEP > 0 && VPT <= 4) ? 3 : ((BLOCK == 512 && VPT <= 9) ? 2 : 1);
constexpr bool kWide = VPT > KEEP_F32 || DEEP > 0;  // exponentials as pairs of f16 instead of f32
// Pairs of f16: the largest exponential becomes 2^15, so that those down to 2^-29 of it stay normal numbers. The factor is
// in every term of the sum too, and cancels.
constexpr float kScaleLog2 = kWide ? 15.0f : 0.0f;
constexpr float kLowest = -3.40282347e38f;  // of finite numbers

__device__ __forceinline__ float low(unsigned w) { return __uint_as_float(w << 16); }
__device__ __forceinline__ float high(unsigned w) { return __uint_as_float(w & 0xffff0000u); }

__device__ __forceinline__ float fast_exp2(float v) {
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(v));
  return r;
}

__device__ __forceinline__ float fast_reciprocal(float v) {
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(v));
  return r;
}

__device__ __forceinline__ unsigned max2(unsigned a, unsigned b) {
  unsigned r;
  asm("max.bf16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
  return r;
}

// The integer that is in the order of integers what the float with the bits `i` is in that of floats; its own inverse.
__device__ __forceinline__ int in_order(int i) { return i ^ ((i >> 31) & 0x7fffffff); }

// Maximum of the 32 lanes.
__device__ __forceinline__ float warp_maximum(float v) {
  int r;
  asm volatile("redux.sync.max.s32 %0, %1, 0xffffffff;" : "=r"(r) : "r"(in_order(__float_as_int(v))));
  return __int_as_float(in_order(r));
}

__device__ __forceinline__ unsigned pack_bf16(float lo, float hi) {
  unsigned r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
  return r;
}

__device__ __forceinline__ unsigned pack_f16(float lo, float hi) {
  unsigned r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
  return r;
}

__device__ __forceinline__ float from_f16(unsigned short h) {
  float r;
  asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(h));
  return r;
}

__device__ __forceinline__ uint4 load_vector(const unsigned short* p) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p));
  return v;
}

__device__ __forceinline__ void store_vector(unsigned short* p, const unsigned (&w)[4]) {
  asm volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]) : "memory");
}

__device__ __forceinline__ uint4 load_shared(unsigned at) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(at) : "memory");
  return v;
}

__device__ __forceinline__ void store_shared(unsigned at, unsigned a, unsigned b, unsigned c, unsigned d) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}

// The vector at the end of the tensor, of which only `count` elements exist.
__device__ __forceinline__ uint4 load_end(const unsigned short* p, int count) {
  unsigned w[4];
#pragma unroll
  for (int q = 0; q < 4; ++q) {
    const unsigned a = 2 * q < count ? p[2 * q] : 0xff80u;
    const unsigned b = 2 * q + 1 < count ? p[2 * q + 1] : 0xff80u;
    w[q] = a | (b << 16);
  }
  return make_uint4(w[0], w[1], w[2], w[3]);
}

}  // namespace

extern "C" __global__ void __launch_bounds__(BLOCK, kMinBlocks)
    softmax(const unsigned short* __restrict__ x, unsigned short* __restrict__ y, int R) {
#if LANES > 0
  const int mine = threadIdx.x % LANES;
  const long long row = static_cast<long long>(blockIdx.x) * (BLOCK / LANES) + threadIdx.x / LANES;
  const bool live = row < R;
  const int part = 0;
#else
#if CLUSTER > 1
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");  // only: this block has started
#endif
  __shared__ float2 slots[kSlots];
  const int mine = threadIdx.x;
  const int rank = blockIdx.x % CLUSTER;
  const long long row = blockIdx.x / CLUSTER;
  const bool live = true;
  const int part = rank * PART;
#endif

  const long long first = row * C;                               // first element of the row
  const int shift = kAligned ? 0 : static_cast<int>(first & 7);  // elements of the neighbour in vector 0
  const long long total = static_cast<long long>(R) * C;
  // First element of vector 0 of this thread, counted from the beginning of the row; vector k begins 8 * kStep * k later.
  const int origin = (part + mine) * 8 - shift;
  const unsigned short* const from = x + (first + origin);
  unsigned short* const to = y + (first + origin);

  // Whether vector k of this thread holds something of the row.
  const auto valid = [&](int k) {
    return live && ((k + 1) * kStep <= PART || k * kStep + mine < PART) &&
           ((kAligned && CLUSTER * PART == VECS) || origin + k * kStep * 8 < C);
  };

  unsigned w[VPT][4];
#pragma unroll
  for (int k = 0; k < VPT; ++k) {
    uint4 v = make_uint4(kNone, kNone, kNone, kNone);
    if (valid(k)) {
      const long long at = first + origin + k * kStep * 8;
      if (kAligned || at + 8 <= total) {
        v = load_vector(from + k * kStep * 8);
      } else {
        v = load_end(from + k * kStep * 8, static_cast<int>(total - at));
      }
    }
    w[k][0] = v.x;
    w[k][1] = v.y;
    w[k][2] = v.z;
    w[k][3] = v.w;
  }
#if DEEP > 0
  extern __shared__ __align__(128) unsigned char deep_bytes[];
  const unsigned deep = static_cast<unsigned>(__cvta_generic_to_shared(deep_bytes)) + mine * 16;
#pragma unroll
  for (int k = 0; k < DEEP; ++k) {
    if (valid(VPT + k)) {
      const long long at = first + origin + (VPT + k) * kStep * 8;
      const unsigned short* const source = from + (VPT + k) * kStep * 8;
      const unsigned target = deep + k * (kStep * 16);
      if (kAligned || at + 8 <= total) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(target), "l"(source) : "memory");
      } else {
        const uint4 v = load_end(source, static_cast<int>(total - at));
        store_shared(target, v.x, v.y, v.z, v.w);
      }
    }
  }
  // Vector VPT + k of this thread, elements of the neighbour as -inf.
  const auto deep_vector = [&](int k) {
    uint4 v = load_shared(deep + k * (kStep * 16));
    if (!kAligned) {
      const int o = origin + (VPT + k) * kStep * 8;
      if (o + 8 > C) {
        unsigned u[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (int q = 0; q < 4; ++q) {
          if (o + 2 * q >= C) u[q] = (u[q] & 0xffff0000u) | 0x0000ff80u;
          if (o + 2 * q + 1 >= C) u[q] = (u[q] & 0x0000ffffu) | 0xff800000u;
        }
        v = make_uint4(u[0], u[1], u[2], u[3]);
      }
    }
    return v;
  };
#endif
  if (!kAligned) {  // elements of the neighbours become -inf
#pragma unroll
    for (int k = 0; k < VPT; ++k) {
      const int o = origin + k * kStep * 8;
      if (o < 0 || o + 8 > C) {
#pragma unroll
        for (int q = 0; q < 4; ++q) {
          if (o + 2 * q < 0 || o + 2 * q >= C) w[k][q] = (w[k][q] & 0xffff0000u) | 0x0000ff80u;
          if (o + 2 * q + 1 < 0 || o + 2 * q + 1 >= C) w[k][q] = (w[k][q] & 0x0000ffffu) | 0xff800000u;
        }
      }
    }
  }

  // Maximum: half an instruction for each element.
  unsigned m[4];
#pragma unroll
  for (int q = 0; q < 4; ++q) m[q] = w[0][q];
#pragma unroll
  for (int k = 1; k < VPT; ++k) {
#pragma unroll
    for (int q = 0; q < 4; ++q) m[q] = max2(m[q], w[k][q]);
  }
#if DEEP > 0
  asm volatile("cp.async.wait_all;" ::: "memory");  // of this thread, which alone reads them
#pragma unroll 2
  for (int k = 0; k < DEEP; ++k) {
    if (valid(VPT + k)) {
      const uint4 v = deep_vector(k);
      m[0] = max2(m[0], v.x);
      m[1] = max2(m[1], v.y);
      m[2] = max2(m[2], v.z);
      m[3] = max2(m[3], v.w);
    }
  }
#endif
  m[0] = max2(max2(m[0], m[1]), max2(m[2], m[3]));
  const float top = fmaxf(low(m[0]), high(m[0]));
  // Of this lane alone, so that its exponentials wait for no other lane. Finite also where there are no elements. Differences are
  // formed before they are scaled: the exponential of a maximum is exact, and that of no finite element is NaN.
  const float base = fmaxf(top, kLowest);
  // The largest base of the lanes that reduce together; needed only after the exponentials.
  float peak = base;
  if constexpr (kWidth == 32) {
    peak = warp_maximum(base);
  } else {
#pragma unroll
    for (int d = kWidth / 2; d > 0; d /= 2) peak = fmaxf(peak, __shfl_xor_sync(0xffffffffu, peak, d));
  }

  // Exponentials, once. They stay in `e`, or as f16 pairs in the registers of the inputs.
  float e[kWide ? 1 : VPT * 8];
  float s[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
  for (int k = 0; k < VPT; ++k) {
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      const float a = fast_exp2(fmaf(low(w[k][q]) - base, kLog2e, kScaleLog2));
      const float b = fast_exp2(fmaf(high(w[k][q]) - base, kLog2e, kScaleLog2));
      s[(2 * q) % 4] += a;
      s[(2 * q + 1) % 4] += b;
      if constexpr (kWide) {
        w[k][q] = pack_f16(a, b);
      } else {
        e[k * 8 + 2 * q] = a;
        e[k * 8 + 2 * q + 1] = b;
      }
    }
  }
#if DEEP > 0
#pragma unroll 2
  for (int k = 0; k < DEEP; ++k) {
    if (valid(VPT + k)) {
      const uint4 v = deep_vector(k);
      unsigned u[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
      for (int q = 0; q < 4; ++q) {
        const float a = fast_exp2(fmaf(low(u[q]) - base, kLog2e, kScaleLog2));
        const float b = fast_exp2(fmaf(high(u[q]) - base, kLog2e, kScaleLog2));
        s[(2 * q) % 4] += a;
        s[(2 * q + 1) % 4] += b;
        u[q] = pack_f16(a, b);
      }
      store_shared(deep + k * (kStep * 16), u[0], u[1], u[2], u[3]);
    }
  }
#endif
  const float share = fast_exp2((base - peak) * kLog2e);  // from the scale of this lane to that of all
  float sum = ((s[0] + s[1]) + (s[2] + s[3])) * share;
#pragma unroll
  for (int d = kWidth / 2; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);

  float factor;  // of the kept exponentials
#if LANES > 0
  factor = share * fast_reciprocal(sum);
#else
  {
    const int lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;
#if CLUSTER > 1
    __syncwarp();
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");  // the others have started
    if (lane < CLUSTER) {
      const unsigned here = static_cast<unsigned>(__cvta_generic_to_shared(&slots[rank * kWarps + warp]));
      unsigned there;
      asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(lane));
      asm volatile("st.shared::cluster.v2.f32 [%0], {%1, %2};" ::"r"(there), "f"(peak), "f"(sum) : "memory");
    }
    __syncwarp();
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#else
    if (lane == 0) slots[warp] = make_float2(peak, sum);
    __syncthreads();
#endif
    float2 pair[kSlotsPerLane];
    float all = kLowest;
#pragma unroll
    for (int k = 0; k < kSlotsPerLane; ++k) {
      const int slot = k * 32 + lane % kFold;
      pair[k] = slot < kSlots ? slots[slot] : make_float2(kLowest, 0.0f);
      all = fmaxf(all, pair[k].x);
    }
    all = warp_maximum(all);
    float whole = 0.0f;
#pragma unroll
    for (int k = 0; k < kSlotsPerLane; ++k) whole = fmaf(pair[k].y, fast_exp2((pair[k].x - all) * kLog2e), whole);
#pragma unroll
    for (int d = kFold / 2; d > 0; d /= 2) whole += __shfl_xor_sync(0xffffffffu, whole, d);
    factor = fast_exp2((base - all) * kLog2e) * fast_reciprocal(whole);
  }
#endif

  const auto put = [&](int k, const unsigned (&r)[4]) {
    const int o = origin + k * kStep * 8;
    unsigned short* const at = to + k * kStep * 8;
    if (kAligned || (o >= 0 && o + 8 <= C)) {
      store_vector(at, r);
    } else {
#pragma unroll
      for (int q = 0; q < 4; ++q) {
        if (o + 2 * q >= 0 && o + 2 * q < C) at[2 * q] = static_cast<unsigned short>(r[q] & 0xffffu);
        if (o + 2 * q + 1 >= 0 && o + 2 * q + 1 < C) at[2 * q + 1] = static_cast<unsigned short>(r[q] >> 16);
      }
    }
  };
#pragma unroll
  for (int k = 0; k < VPT; ++k) {
    if (valid(k)) {
      unsigned r[4];
#pragma unroll
      for (int q = 0; q < 4; ++q) {
        if constexpr (kWide) {
          r[q] = pack_bf16(from_f16(static_cast<unsigned short>(w[k][q] & 0xffffu)) * factor,
                           from_f16(static_cast<unsigned short>(w[k][q] >> 16)) * factor);
        } else {
          r[q] = pack_bf16(e[k * 8 + 2 * q] * factor, e[k * 8 + 2 * q + 1] * factor);
        }
      }
      put(k, r);
    }
  }
#if DEEP > 0
#pragma unroll 2
  for (int k = 0; k < DEEP; ++k) {
    if (valid(VPT + k)) {
      const uint4 v = load_shared(deep + k * (kStep * 16));
      const unsigned u[4] = {v.x, v.y, v.z, v.w};
      unsigned r[4];
#pragma unroll
      for (int q = 0; q < 4; ++q) {
        r[q] = pack_bf16(from_f16(static_cast<unsigned short>(u[q] & 0xffffu)) * factor,
                         from_f16(static_cast<unsigned short>(u[q] >> 16)) * factor);
      }
      put(VPT + k, r);
    }
  }
#endif
}
