// Elements of 16 bits, f16 or bf16 (dtype is specialized). TYPE is the name of theirs in instructions.
#pragma once

#ifdef DTYPE_BF16
#define TYPE "bf16"
#else
#define TYPE "f16"
#endif

using u32 = unsigned;
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

// A transposition of 2 by 2 between lanes that differ in `bit`.
__device__ __forceinline__ void exchange(u32& low, u32& high, bool upper, int bit) {
  const u32 got = __shfl_xor_sync(0xffffffffu, upper ? low : high, bit);
  if (upper)
    low = got;
  else
    high = got;
}

}  // namespace
