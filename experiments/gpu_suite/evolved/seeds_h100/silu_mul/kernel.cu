/*--- cultivar
name: silu_mul_few_in_flight
task: silu_mul
target: cuda
about: "Vectors of 16 bytes of both inputs, several in flight; silu by ex2 and rcp; up to 64 MiB a tensor, few bytes in flight, so that the stream pushes few dirty lines out of L2."
tunables:
  BLOCK: {values: [128, 256, 512, 1024], default: 1024}
  EACH: {values: [1, 2, 4, 8], default: 1}          # vectors of 16 bytes that a thread has read before it computes
  PERSIST: {values: [0, 1, 2, 4, 8], default: 0}    # blocks of a multiprocessor, which take chunk after chunk; 0: a block a chunk
  LOADS: {values: [plain, streaming], default: plain}
  STORES: {values: [plain, streaming], default: streaming}
  KEEP: {values: [0, 1, 2], default: 2}             # SIZE 1 and 2: inputs leave the cache first, outputs stay in it; 2: and are asked to
  MID_BLOCK: {values: [128, 256, 512, 1024], default: 512}       # SIZE 1: threads of a block, with a vector of each input each
  MID_CAP: {values: [512, 1024, 1536, 2048], default: 2048}      # SIZE 1: threads of a multiprocessor
  ONE_WAVE: {values: [0, 1], default: 1}            # 0: what would be SIZE 2 is SIZE 1
  DEEP: {values: [2, 4], default: 4}                # SIZE 2: vectors of each input that a thread reads at once
constraints: ["MID_BLOCK <= MID_CAP"]
specialize: [dtype, SIZE, CHUNK_THREADS, CHUNK_EACH]
headers: [approximate.cuh, vectors.cuh]
let:
  # 0: much more than the cache holds, 1: outputs about as large as the cache, 2: one wave, 3: less than a vector for each thread
  SIZE: "R * C * element_bytes > 67108864 ? 0 : (R * C * element_bytes > (ONE_WAVE ? 8388608 : 1572864) ? 1 : (R * C * element_bytes > 1572864 ? 2 : 3))"
  CHUNK_THREADS: "SIZE == 1 ? MID_BLOCK : BLOCK"
  CHUNK_EACH: "SIZE == 1 ? 1 : EACH"
  chunk: "CHUNK_THREADS * CHUNK_EACH * 16 / element_bytes"
  chunks: "ceil_div(R * C, chunk)"
  vectors: "ceil_div(R * C * element_bytes, 16)"
  each: "SIZE == 2 ? DEEP : 1"
  most: "SIZE == 2 ? floor_div(2048, DEEP) : 1024"
  places: "SIZE == 2 ? num_sms * 2 : num_sms"
  fitted: "max(32, min(most, round_up(ceil_div(vectors, places * each), 32)))"
  threads: "SIZE < 2 ? CHUNK_THREADS : fitted"
  large_blocks: "SIZE == 0 && PERSIST > 0 ? min(chunks, num_sms * PERSIST) : chunks"
  blocks: "SIZE < 2 ? large_blocks : ceil_div(vectors, fitted * each)"
  held: "SIZE == 1 && MID_CAP < 2048 ? floor_div(233472, floor_div(MID_CAP, MID_BLOCK) + 1) : 0"  # shared memory that leaves no room for more blocks
launch:
  - kernel: silu_mul
    grid: [blocks, 1, 1]
    block: [threads, 1, 1]
    shared: held
    args: [gate, up, y, {value: "R * C", type: i64}]
---*/

// The tensors are taken as one row of elements, so that every shape is read by 16 bytes but for the last few elements.

#include "approximate.cuh"
#include "vectors.cuh"

#if SIZE >= 2

namespace {

#if SIZE == 2
enum : int { kEach = DEEP, kMost = 2048 / DEEP };
#else
enum : int { kEach = 1, kMost = 1024 };
#endif

// x / (1 + e^-x): the exponential is infinite, the result 0, where x is very small
__device__ __forceinline__ Vector activate(const Vector& gates, const Vector& ups) {
  float values[kVector], factors[kVector];
  widen(gates, values);
  widen(ups, factors);
#pragma unroll
  for (int e = 0; e < kVector; ++e)
    values[e] *= reciprocal(1.0f + exp2_fast(-1.44269504f * values[e])) * factors[e];
  return narrow(values);
}

}  // namespace

// The host fits the size of the blocks, so that all of them are resident at once and the multiprocessors have equal work.
extern "C" __global__ void __launch_bounds__(kMost, 2)
    silu_mul(const Element* gate, const Element* up, Element* y, long long total) {
  const int count = static_cast<int>(total);
  const int step = static_cast<int>(blockDim.x) * kVector;
  const int mine = static_cast<int>(blockIdx.x) * step * kEach + static_cast<int>(threadIdx.x) * kVector;
  if (mine + (kEach - 1) * step + kVector <= count) {
    Vector gates[kEach];
    Vector ups[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      gates[i].whole = load_whole(gate + mine + i * step);
      ups[i].whole = load_whole(up + mine + i * step);
    }
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const Vector result = activate(gates[i], ups[i]);
      store_whole(y + mine + i * step, result.whole);
    }
    return;
  }
#pragma unroll 1
  for (int at = mine, i = 0; i < kEach && at < count; ++i, at += step) {
    Vector a, b;
    if (at + kVector <= count) {
      a.whole = load_whole(gate + at);
      b.whole = load_whole(up + at);
      const Vector result = activate(a, b);
      store_whole(y + at, result.whole);
    } else {
#pragma unroll
      for (int e = 0; e < kVector; ++e) {
        a.part[e] = at + e < count ? gate[at + e] : Element{};
        b.part[e] = at + e < count ? up[at + e] : Element{};
      }
      const Vector result = activate(a, b);
#pragma unroll
      for (int e = 0; e < kVector; ++e)
        if (at + e < count) y[at + e] = result.part[e];
    }
  }
}

#else

extern "C" __global__ void __launch_bounds__(CHUNK_THREADS)
    silu_mul(const Element* gate, const Element* up, Element* y, long long count) {
  enum : int { kChunk = CHUNK_THREADS * CHUNK_EACH * kVector };
  for (long long first = static_cast<long long>(blockIdx.x) * kChunk; first < count;
       first += static_cast<long long>(gridDim.x) * kChunk) {
    const long long mine = first + static_cast<long long>(threadIdx.x) * kVector;
    Vector gates[CHUNK_EACH];
    Vector ups[CHUNK_EACH];
#pragma unroll
    for (int i = 0; i < CHUNK_EACH; ++i) {
      const long long at = mine + i * CHUNK_THREADS * kVector;
      if (at + kVector <= count) gates[i].whole = load_whole(gate + at), ups[i].whole = load_whole(up + at);
    }
#pragma unroll
    for (int i = 0; i < CHUNK_EACH; ++i) {
      const long long at = mine + i * CHUNK_THREADS * kVector;
      if (at >= count) break;
      const bool whole = at + kVector <= count;
      if (!whole) {
#pragma unroll
        for (int e = 0; e < kVector; ++e) {
          gates[i].part[e] = at + e < count ? gate[at + e] : Element{};
          ups[i].part[e] = at + e < count ? up[at + e] : Element{};
        }
      }
      float values[kVector], factors[kVector];
      widen(gates[i], values);
      widen(ups[i], factors);
#pragma unroll
      for (int e = 0; e < kVector;
           ++e)  // x / (1 + e^-x): the exponential is infinite, the result 0, where x is very small
        values[e] *= reciprocal(1.0f + exp2_fast(-1.44269504f * values[e])) * factors[e];
      const Vector result = narrow(values);
      if (whole) {
        store_whole(y + at, result.whole);
      } else {
#pragma unroll
        for (int e = 0; e < kVector; ++e)
          if (at + e < count) y[at + e] = result.part[e];
      }
    }
  }
}

#endif
//// file: approximate.cuh ////
// Functions that a multiprocessor computes in one instruction, with a relative error of about 2^-22; subnormal numbers count as 0.
#pragma once

namespace {

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

}  // namespace
//// file: vectors.cuh ////
// 16 bytes of a tensor at a time: an Element is what a tensor of the specialized dtype (f32, f16 or bf16) holds, a Vector is kVector
// of them, and widen and narrow convert these from and to floats. Reads and writes go as the tunables LOADS and STORES
// (plain or streaming) say.
#pragma once

namespace {

// Enums, because NVRTC would make writable device globals of constants.
#if defined(DTYPE_F32)
using Element = float;
enum : int { kVector = 4 };  // elements of 16 bytes
#else
using Element = unsigned short;
enum : int { kVector = 8 };
#endif

union Vector {
  uint4 whole;
  unsigned words[4];
  Element part[kVector];
};

#if defined(DTYPE_F32)
__device__ __forceinline__ void widen(const Vector& from, float (&to)[kVector]) {
#pragma unroll
  for (int i = 0; i < kVector; ++i) to[i] = from.part[i];
}
__device__ __forceinline__ Vector narrow(const float (&from)[kVector]) {
  Vector to;
#pragma unroll
  for (int i = 0; i < kVector; ++i) to.part[i] = from[i];
  return to;
}
#elif defined(DTYPE_F16)
__device__ __forceinline__ void widen(const Vector& from, float (&to)[kVector]) {
#pragma unroll
  for (int i = 0; i < 4; ++i)
    asm("{ .reg .b16 low, high; mov.b32 {low, high}, %2; cvt.f32.f16 %0, low; cvt.f32.f16 %1, high; }"
        : "=f"(to[2 * i]), "=f"(to[2 * i + 1])
        : "r"(from.words[i]));
}
__device__ __forceinline__ Vector narrow(const float (&from)[kVector]) {
  Vector to;
#pragma unroll
  for (int i = 0; i < 4; ++i)
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(to.words[i]) : "f"(from[2 * i + 1]), "f"(from[2 * i]));
  return to;
}
#else
__device__ __forceinline__ void widen(const Vector& from, float (&to)[kVector]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    to[2 * i] = __uint_as_float(from.words[i] << 16);
    to[2 * i + 1] = __uint_as_float(from.words[i] & 0xffff0000u);
  }
}
__device__ __forceinline__ Vector narrow(const float (&from)[kVector]) {
  Vector to;
#pragma unroll
  for (int i = 0; i < 4; ++i)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(to.words[i]) : "f"(from[2 * i + 1]), "f"(from[2 * i]));
  return to;
}
#endif

__device__ __forceinline__ uint4 load_whole(const Element* from) {
  const uint4* const address = reinterpret_cast<const uint4*>(from);
#if KEEP && (SIZE == 1 || SIZE == 2)
  unsigned long long policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  uint4 value;
  asm volatile("ld.global.nc.L1::no_allocate.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(address), "l"(policy));
  return value;
#else
  return LOADS == LOADS_streaming ? __ldcs(address) : *address;
#endif
}
__device__ __forceinline__ void store_whole(Element* to, uint4 value) {
  uint4* const address = reinterpret_cast<uint4*>(to);
#if KEEP == 2 && (SIZE == 1 || SIZE == 2)
  unsigned long long policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  asm volatile("st.global.L2::cache_hint.v4.u32 [%0], {%1, %2, %3, %4}, %5;"
               :
               : "l"(address), "r"(value.x), "r"(value.y), "r"(value.z), "r"(value.w), "l"(policy)
               : "memory");
  return;
#endif
#if KEEP && (SIZE == 1 || SIZE == 2)
  constexpr bool stream = false;
#else
  constexpr bool stream = STORES == STORES_streaming;
#endif
  if (stream)
    __stcs(address, value);
  else
    *address = value;
}

}  // namespace
