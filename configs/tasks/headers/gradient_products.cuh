// Instructions of Hopper for attention's gradients: copies, products of 64 rows by wgmma, and counters of the whole grid. D and
// dtype are specialized; a place in shared memory is its address, an operand of a product the low word of its descriptor.
#pragma once

#include "barriers.cuh"
#include "sixteen_bits.cuh"

struct alignas(64) CUtensorMap {
  unsigned long long opaque[16];
};

namespace {

__device__ __forceinline__ void barrier_arrive(u32 barrier) {
  asm volatile("{ .reg .b64 t; mbarrier.arrive.shared::cta.b64 t, [%0]; }" ::"r"(barrier) : "memory");
}

// What this thread wrote to shared memory is then seen by wgmma and bulk copies.
__device__ __forceinline__ void writes_are_visible() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ __forceinline__ void load_box(u32 to, const CUtensorMap* map, u32 barrier, int d, int head, int row, int b) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(to), "l"(map), "r"(barrier), "r"(d), "r"(head), "r"(row), "r"(b)
      : "memory");
}

__device__ __forceinline__ void prefetch_box(const CUtensorMap* map, int d, int head, int row, int b) {
  asm volatile("cp.async.bulk.prefetch.tensor.4d.L2.global.tile [%0, {%1, %2, %3, %4}];" ::"l"(map), "r"(d), "r"(head),
               "r"(row), "r"(b)
               : "memory");
}

__device__ __forceinline__ void load_bytes(u32 to, const void* from, u32 bytes, u32 barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier)
               : "memory");
}

__device__ __forceinline__ void add_bytes(float* to, u32 from, u32 bytes) {
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to), "r"(from),
               "r"(bytes)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

__device__ __forceinline__ float4 load_shared(u32 address) {
  float4 x;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
               : "r"(address)
               : "memory");
  return x;
}

__device__ __forceinline__ void store_shared(u32 address, const float* x) {
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address), "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3])
               : "memory");
}

__device__ __forceinline__ int load_int(u32 address) {
  int x;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(x) : "r"(address) : "memory");
  return x;
}

__device__ __forceinline__ void store_int(u32 address, int x) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(x) : "memory");
}

__device__ __forceinline__ void store_matrices(u32 address, const u32* x) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(x[0]), "r"(x[1]),
               "r"(x[2]), "r"(x[3])
               : "memory");
}

// Counters of the whole grid: what was written before an `announce` is seen after an `observe` that sees it.
__device__ __forceinline__ void announce(int* counter, int number = 1) {
  asm volatile("fence.proxy.async;" ::: "memory");
  asm volatile("red.release.gpu.global.add.s32 [%0], %1;" ::"l"(counter), "r"(number) : "memory");
}
__device__ __forceinline__ void observe(const int* counter, int target) {
  int x;
  for (;;) {
    asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(x) : "l"(counter) : "memory");
    if (x >= target) break;
    asm volatile("nanosleep.u32 500;" ::: "memory");
  }
  asm volatile("fence.proxy.async;" ::: "memory");
}

__device__ __forceinline__ float4 load_sums(const float* from) {
  float4 x;
  asm volatile("ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
               : "l"(from)
               : "memory");
  return x;
}

__device__ __forceinline__ u32 shared_address(const void* p) {
  return static_cast<u32>(__cvta_generic_to_shared(p));
}

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

#define FOUR(k, c, i) k(c[i]), k(c[i + 1]), k(c[i + 2]), k(c[i + 3])
#define EIGHT(k, c, i) FOUR(k, c, i), FOUR(k, c, i + 4)
#define OPERANDS_64(k, c) EIGHT(k, c, 0), EIGHT(k, c, 8), EIGHT(k, c, 16), EIGHT(k, c, 24)
#define OPERANDS_128(k, c) OPERANDS_64(k, c), EIGHT(k, c, 32), EIGHT(k, c, 40), EIGHT(k, c, 48), EIGHT(k, c, 56)
#define REGISTERS_64                                                                                               \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, " \
  "%24, %25, %26, %27, %28, %29, %30, %31"
#define REGISTERS_128                                                                                               \
  REGISTERS_64 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, "  \
               "%51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
// The high word of all descriptors: the 128-byte swizzle; 8 rows of 128 bytes follow each other.
#define PAIR(l, r)                                                                                        \
  "{ .reg .pred p; .reg .b32 h; .reg .b64 l, r; mov.b32 h, 0x40000040; mov.b64 l, {" l ", h}; mov.b64 r, {" r \
  ", h}; setp.ne.b32 p, 0, 0; "
#define RIGHT(r, m)                                                                                        \
  "{ .reg .pred p; .reg .b32 h; .reg .b64 r; mov.b32 h, 0x40000040; mov.b64 r, {" r ", h}; setp.ne.b32 p, " \
  m ", 0; "
#define SHAPE(n) "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." TYPE "." TYPE

// c = a b, or c += a b, 64 by 64, from shared memory; `along`: whether both lie along their rows. An operand is the low word of
// its descriptor.
template <bool along>
__device__ __forceinline__ void multiply_first(float (&c)[32], u32 a, u32 b) {
  if (along)
    asm volatile(PAIR("%32", "%33") SHAPE(64) " {" REGISTERS_64 "}, l, r, p, 1, 1, 1, 1; }"
                 : OPERANDS_64("=f", c)
                 : "r"(a), "r"(b));
  else
    asm volatile(PAIR("%32", "%33") SHAPE(64) " {" REGISTERS_64 "}, l, r, p, 1, 1, 0, 0; }"
                 : OPERANDS_64("=f", c)
                 : "r"(a), "r"(b));
}
template <bool along>
__device__ __forceinline__ void multiply_next(float (&c)[32], u32 a, u32 b) {
  if (along)
    asm volatile(PAIR("%32", "%33") SHAPE(64) " {" REGISTERS_64 "}, l, r, 1, 1, 1, 1, 1; }"
                 : OPERANDS_64("+f", c)
                 : "r"(a), "r"(b));
  else
    asm volatile(PAIR("%32", "%33") SHAPE(64) " {" REGISTERS_64 "}, l, r, 1, 1, 1, 0, 0; }"
                 : OPERANDS_64("+f", c)
                 : "r"(a), "r"(b));
}

// c = (more ? c : 0) + a b, where a is in registers and b, 16 rows of the head, in shared memory
__device__ __forceinline__ void multiply_kept(float (&c)[D / 2], const u32* a, u32 b, bool more) {
#if D == 64
  asm volatile(RIGHT("%36", "%37") SHAPE(64) " {" REGISTERS_64 "}, {%32, %33, %34, %35}, r, p, 1, 1, 1; }"
               : OPERANDS_64("+f", c)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b), "r"(more ? 1 : 0));
#else
  asm volatile(RIGHT("%68", "%69") SHAPE(128) " {" REGISTERS_128 "}, {%64, %65, %66, %67}, r, p, 1, 1, 1; }"
               : OPERANDS_128("+f", c)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b), "r"(more ? 1 : 0));
#endif
}

// Of a tile with the 128-byte swizzle. `columns` is the distance of its columns, which only an operand that lies along its rows
// needs.
__device__ __forceinline__ u32 describe(u32 address, u32 columns) {
  return columns >> 4 << 16 | address >> 4;
}

// The same in all lanes, and known to be.
__device__ __forceinline__ u32 uniform(u32 x) {
  return __reduce_or_sync(0xffffffffu, x);
}

}  // namespace
