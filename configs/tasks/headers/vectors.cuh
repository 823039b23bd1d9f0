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
