// Products of 64 rows of A and WIDTH rows of B, both of 64 columns of 16 bits in shared memory, by wgmma. WIDTH is a macro: 8, 16,
// 32 or 64; with wgmma_wide.cuh before this header also 96 to 256 in steps of 32. The sums stay in registers: of a warp's 16 rows,
// element 4 j + 2 r + e of a thread is row lane / 4 + 8 r, column 8 j + lane % 4 * 2 + e.
#pragma once

#include "sixteen_bits.cuh"

using u64 = unsigned long long;

namespace {

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

}  // namespace
