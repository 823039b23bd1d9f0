/*--- cultivar
name: gelu_vectors
task: gelu
target: cuda
about: "Vectors of 16 bytes, several in flight; erfc by a rational approximation with ex2 and rcp, tanh by ex2 and rcp."
tunables:
  BLOCK: {values: [128, 256, 512, 1024], default: 128}
  EACH: {values: [1, 2, 4, 8], default: 1}          # vectors of 16 bytes that a thread has read before it computes
  PERSIST: {values: [0, 1, 2, 4, 8], default: 0}    # blocks of a multiprocessor, which take chunk after chunk; 0: a block a chunk
  LOADS: {values: [plain, streaming], default: plain}
  STORES: {values: [plain, streaming], default: plain}
specialize: [dtype]
headers: [activations.cuh, approximate.cuh, vectors.cuh]
let:
  chunk: "BLOCK * EACH * 16 / element_bytes"
  chunks: "ceil_div(R * C, chunk)"
launch:
  - kernel: gelu
    grid: ["PERSIST > 0 ? min(chunks, num_sms * PERSIST) : chunks", 1, 1]
    block: [BLOCK, 1, 1]
    args: [x, y, tanh_form, {value: "R * C", type: i64}]
---*/

// The tensors are taken as one row of elements, so that every shape is read by 16 bytes but for the last few elements.

#include "activations.cuh"
#include "vectors.cuh"

namespace {

// max(x, 0) - |x| / 2 * erfc(|x| / sqrt(2)): nothing cancels on either side of zero.
__device__ __forceinline__ float gelu_of(float x) {
  const float z = fabsf(x) * 0.707106781f;
#if defined(DTYPE_F32)
  const float erfc_z = erfcf(z);
#else  // Abramowitz and Stegun 7.1.26, absolute error 1.5e-7
  const float t = reciprocal(fmaf(0.3275911f, z, 1.0f));
  float p = fmaf(1.061405429f, t, -1.453152027f);
  p = fmaf(p, t, 1.421413741f);
  p = fmaf(p, t, -0.284496736f);
  p = fmaf(p, t, 0.254829592f);
  const float erfc_z = p * t * exp2_fast(-1.44269504f * z * z);
#endif
  return fmaf(-0.5f * fabsf(x), erfc_z, fmaxf(x, 0.0f));
}

}  // namespace

extern "C" __global__ void __launch_bounds__(BLOCK)
    gelu(const Element* x, Element* y, int tanh_form, long long count) {
  enum : int { kChunk = BLOCK * EACH * kVector };
  for (long long first = static_cast<long long>(blockIdx.x) * kChunk; first < count;
       first += static_cast<long long>(gridDim.x) * kChunk) {
    const long long mine = first + static_cast<long long>(threadIdx.x) * kVector;
    Vector xs[EACH];
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
      const long long at = mine + i * BLOCK * kVector;
      if (at + kVector <= count) xs[i].whole = load_whole(x + at);
    }
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
      const long long at = mine + i * BLOCK * kVector;
      if (at >= count) break;
      const bool whole = at + kVector <= count;
      if (!whole) {
#pragma unroll
        for (int e = 0; e < kVector; ++e) {
          xs[i].part[e] = at + e < count ? x[at + e] : Element{};
        }
      }
      float values[kVector];
      widen(xs[i], values);
      if (tanh_form) {
#pragma unroll
        for (int e = 0; e < kVector; ++e) values[e] = gelu_by_tanh(values[e]);
      } else {
#pragma unroll
        for (int e = 0; e < kVector; ++e) values[e] = gelu_of(values[e]);
      }
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
//// file: activations.cuh ////
// Activations by one exponential and one reciprocal.
#pragma once

#include "approximate.cuh"

namespace {

// x / 2 * (1 + tanh(u)) = x / (1 + e^-2u) with u = sqrt(2 / pi) * (x + 0.044715 x^3)
__device__ __forceinline__ float gelu_by_tanh(float x) {
  const float u = 0.797884561f * fmaf(0.044715f * x * x, x, x);
  return x * reciprocal(1.0f + exp2_fast(-2.88539008f * u));
}
// x / (1 + e^-x): the exponential is infinite, the result 0, where x is very small.
__device__ __forceinline__ float silu_of(float x) {
  return x * reciprocal(1.0f + exp2_fast(-1.44269504f * x));
}

}  // namespace
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
  return LOADS == LOADS_streaming ? __ldcs(address) : *address;
}
__device__ __forceinline__ void store_whole(Element* to, uint4 value) {
  uint4* const address = reinterpret_cast<uint4*>(to);
  if (STORES == STORES_streaming)
    __stcs(address, value);
  else
    *address = value;
}

}  // namespace
