/*--- cultivar
name: softmax_held_in_registers
task: softmax
target: cuda
about: "Each row is read once into registers of a warp, a block or a cluster of blocks, in aligned 16-byte pieces; pairs of maximum and sum per warp are merged after one barrier."
requires: "C <= 262144"
tunables:
  VECS: {values: [2, 4, 8], default: 4}  # 16-byte pieces per thread that are aimed at
  MAX_THREADS: {values: [512, 1024], default: 512}
  CTA_CHUNKS: {values: [1024, 2048, 4096], default: 2048}  # more pieces in a row than this: a cluster
  ROWS: {values: [1, 2, 4], default: 2}  # per warp, if a row is at most 32 pieces
specialize: [C, dtype]
let:
  per: "16 / element_bytes"
  chunks: "(C % per == 0) ? C / per : ceil_div(C + per - 1, per)"
  narrow: "(chunks <= 128) ? 1 : 0"
  blocks: "(chunks <= CTA_CHUNKS) ? 1 : ((chunks <= 2 * CTA_CHUNKS) ? 2 : ((chunks <= 4 * CTA_CHUNKS) ? 4 : 8))"
  slice: "ceil_div(chunks, blocks)"
  threads: "(narrow == 1) ? 128 : min(MAX_THREADS, round_up(ceil_div(slice, VECS), 32))"
  rows: "(narrow == 1) ? 4 * ((chunks <= 32) ? ROWS : 1) : 1"
launch:
  - kernel: softmax
    grid: ["ceil_div(R, rows) * blocks", 1, 1]
    block: [threads, 1, 1]
    cluster: [blocks, 1, 1]
    args: [x, y, R]
---*/

namespace {

// Elements are handled as bits. PAD: -inf.
#if defined(DTYPE_F32)
using Element = unsigned;
enum : unsigned { kPad = 0xff800000u };
__device__ void unpack(const uint4& v, float* f) {
  f[0] = __uint_as_float(v.x), f[1] = __uint_as_float(v.y), f[2] = __uint_as_float(v.z), f[3] = __uint_as_float(v.w);
}
__device__ uint4 pack(const float* f) {
  return make_uint4(__float_as_uint(f[0]), __float_as_uint(f[1]), __float_as_uint(f[2]), __float_as_uint(f[3]));
}
#else
using Element = unsigned short;
#if defined(DTYPE_F16)
enum : unsigned { kPad = 0xfc00u };
__device__ void unpack2(unsigned v, float* f) {
  const unsigned short low = static_cast<unsigned short>(v & 0xffffu), high = static_cast<unsigned short>(v >> 16);
  asm("cvt.f32.f16 %0, %1;" : "=f"(f[0]) : "h"(low));
  asm("cvt.f32.f16 %0, %1;" : "=f"(f[1]) : "h"(high));
}
__device__ unsigned pack2(float low, float high) {
  unsigned v;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(v) : "f"(high), "f"(low));
  return v;
}
#else
enum : unsigned { kPad = 0xff80u };
__device__ void unpack2(unsigned v, float* f) {
  f[0] = __uint_as_float(v << 16), f[1] = __uint_as_float(v & 0xffff0000u);
}
__device__ unsigned pack2(float low, float high) {
  unsigned v;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(v) : "f"(high), "f"(low));
  return v;
}
#endif
__device__ void unpack(const uint4& v, float* f) {
  unpack2(v.x, f), unpack2(v.y, f + 2), unpack2(v.z, f + 4), unpack2(v.w, f + 6);
}
__device__ uint4 pack(const float* f) {
  return make_uint4(pack2(f[0], f[1]), pack2(f[2], f[3]), pack2(f[4], f[5]), pack2(f[6], f[7]));
}
#endif

// The same as in the manifest.
enum : int {
  kPer = static_cast<int>(16 / sizeof(Element)),
  kAligned = (C % kPer == 0) ? 1 : 0,
  kChunks = kAligned ? C / kPer : (C + 2 * kPer - 2) / kPer,
  kNarrow = kChunks <= 128 ? 1 : 0,
  kCluster = kChunks <= CTA_CHUNKS ? 1 : kChunks <= 2 * CTA_CHUNKS ? 2 : kChunks <= 4 * CTA_CHUNKS ? 4 : 8,
  kSlice = (kChunks + kCluster - 1) / kCluster,
  kWanted = ((kSlice + VECS - 1) / VECS + 31) / 32 * 32,
  kThreads = kNarrow ? 128 : kWanted < MAX_THREADS ? kWanted : MAX_THREADS,
  kLanes = kNarrow ? 32 : kThreads,
  kSteps = (kSlice + kLanes - 1) / kLanes,
  kRows = (kNarrow && kChunks <= 32) ? ROWS : 1,
  kWarps = kThreads / 32,
  kPairs = kCluster * kWarps,
  kPairsPerLane = (kPairs + 31) / 32
};

// exp(x - top). f32 shows the error of a scaled difference, 16 bits do not.
__device__ float exp_of(float x, float top) {
#if defined(DTYPE_F32)
  return expf(x - top);
#else
  float e;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"((x - top) * 1.4426950408889634f));
  return e;
#endif
}

__device__ float max_over_warp(float value) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, step));
  return value;
}

__device__ float sum_over_warp(float value) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
  return value;
}

__device__ uint4 load(const Element* p) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p));
  return v;
}

__device__ unsigned bits(const Element* row, int at) {
  return at >= 0 && at < C ? static_cast<unsigned>(row[at]) : static_cast<unsigned>(kPad);
}

// A piece that is partly outside of the row.
__device__ uint4 gather(const Element* row, int at) {
#if defined(DTYPE_F32)
  return make_uint4(bits(row, at), bits(row, at + 1), bits(row, at + 2), bits(row, at + 3));
#else
  return make_uint4(bits(row, at) | bits(row, at + 1) << 16, bits(row, at + 2) | bits(row, at + 3) << 16,
                    bits(row, at + 4) | bits(row, at + 5) << 16, bits(row, at + 6) | bits(row, at + 7) << 16);
#endif
}

__device__ void scatter(Element* row, int at, const uint4& v) {
  const unsigned words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
  for (int k = 0; k < kPer; ++k) {
#if defined(DTYPE_F32)
    const unsigned value = words[k];
#else
    const unsigned value = words[k / 2] >> (k % 2 * 16);
#endif
    if (at + k >= 0 && at + k < C) row[at + k] = static_cast<Element>(value);
  }
}

__device__ uint4 padding() {
#if defined(DTYPE_F32)
  const unsigned word = kPad;
#else
  const unsigned word = static_cast<unsigned>(kPad) * 0x10001u;
#endif
  return make_uint4(word, word, word, word);
}

// Of finite numbers; what a thread without elements has as its maximum.
constexpr float kLowest = -3.40282347e38f;

__device__ float max_of(const uint4 (&held)[kSteps]) {
#if defined(DTYPE_F32) || defined(DTYPE_F16)
  float top = kLowest;
#pragma unroll
  for (int j = 0; j < kSteps; ++j) {
    float f[kPer];
    unpack(held[j], f);
#pragma unroll
    for (int k = 0; k < kPer; ++k) top = fmaxf(top, f[k]);
  }
  return top;
#else
  unsigned a = padding().x, b = a;
#pragma unroll
  for (int j = 0; j < kSteps; ++j) {
    asm("max.bf16x2 %0, %0, %1;" : "+r"(a) : "r"(held[j].x));
    asm("max.bf16x2 %0, %0, %1;" : "+r"(b) : "r"(held[j].y));
    asm("max.bf16x2 %0, %0, %1;" : "+r"(a) : "r"(held[j].z));
    asm("max.bf16x2 %0, %0, %1;" : "+r"(b) : "r"(held[j].w));
  }
  asm("max.bf16x2 %0, %0, %1;" : "+r"(a) : "r"(b));
  float f[2];
  unpack2(a, f);
  return fmaxf(kLowest, fmaxf(f[0], f[1]));
#endif
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads) softmax(const Element* x, Element* y, int row_count) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int part = kCluster > 1 ? blockIdx.x % kCluster : 0;
  const int thread = kNarrow ? lane : static_cast<int>(threadIdx.x);
  const long long row0 = kNarrow ? (static_cast<long long>(blockIdx.x) * kWarps + warp) * kRows
                                 : static_cast<long long>(blockIdx.x / kCluster);
  if constexpr (kCluster > 1) asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");

  uint4 held[kRows][kSteps];
  int shift[kRows], count[kRows];
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    const long long row = row0 + i < row_count ? row0 + i : row_count - 1;
    const Element* const in = x + row * C;
    shift[i] = kAligned ? 0 : static_cast<int>(row * C % kPer);  // from the piece's start to the row's
    count[i] = kAligned ? kChunks : (shift[i] + C + kPer - 1) / kPer;
#pragma unroll
    for (int j = 0; j < kSteps; ++j) {
      const int local = j * kLanes + thread, chunk = part * kSlice + local, at = chunk * kPer - shift[i];
      held[i][j] = padding();
      if (local < kSlice && chunk < count[i]) {
        if (kAligned || (at >= 0 && at + kPer <= C))
          held[i][j] = load(in + at);
        else
          held[i][j] = gather(in, at);
      }
    }
  }

#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    // Differences are formed before they are scaled: the exponential of a maximum is 1, and that of no finite element is NaN.
    float top = max_over_warp(max_of(held[i]));
    float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
    for (int j = 0; j < kSteps; ++j) {
      const int local = j * kLanes + thread, chunk = part * kSlice + local;
      if (local < kSlice && chunk < count[i]) {
        float f[kPer];
        unpack(held[i][j], f);
#pragma unroll
        for (int k = 0; k < kPer; ++k) sums[k % 4] += exp_of(f[k], top);
      }
    }
    float sum = sum_over_warp((sums[0] + sums[1]) + (sums[2] + sums[3]));

    if constexpr (kNarrow == 0) {
      __shared__ alignas(16) float2 pairs[kPairs];
      if constexpr (kCluster > 1) {
        asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");  // all blocks have started
        if (lane < kCluster) {
          const unsigned here = static_cast<unsigned>(__cvta_generic_to_shared(&pairs[part * kWarps + warp]));
          unsigned there;
          asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(lane));
          asm volatile("st.shared::cluster.v2.f32 [%0], {%1, %2};" ::"r"(there), "f"(top), "f"(sum) : "memory");
        }
        __syncwarp();
        asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
        asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
      } else {
        if (lane == 0) pairs[warp] = make_float2(top, sum);
        __syncthreads();
      }
      float2 mine[kPairsPerLane];
      top = kLowest;
#pragma unroll
      for (int k = 0; k < kPairsPerLane; ++k) {
        mine[k] = k * 32 + lane < kPairs ? pairs[k * 32 + lane] : make_float2(kLowest, 0.0f);
        top = fmaxf(top, mine[k].x);
      }
      top = max_over_warp(top);
      sum = 0.0f;
#pragma unroll
      for (int k = 0; k < kPairsPerLane; ++k) sum += mine[k].y * exp_of(mine[k].x, top);
      sum = sum_over_warp(sum);
    }

    const float factor = 1.0f / sum;
    Element* const out = y + (row0 + i) * C;
    if (row0 + i < row_count) {
#pragma unroll
      for (int j = 0; j < kSteps; ++j) {
        const int local = j * kLanes + thread, chunk = part * kSlice + local, at = chunk * kPer - shift[i];
        if (local < kSlice && chunk < count[i]) {
          float f[kPer];
          unpack(held[i][j], f);
#pragma unroll
          for (int k = 0; k < kPer; ++k) f[k] = exp_of(f[k], top) * factor;
          const uint4 v = pack(f);
          if (kAligned || (at >= 0 && at + kPer <= C))
            *reinterpret_cast<uint4*>(out + at) = v;
          else
            scatter(out, at, v);
        }
      }
    }
  }
}
