// Few rows of x, at most WIDTH, times the rows of weights: blocks of a cluster have a part of K each, and add up their products
// through shared memory. CONSUMERS warpgroups multiply, 64 rows of weights each; one more copies tiles of 64 of K into STAGES
// buffers.
#pragma once

#include "barriers.cuh"
#include "sixteen_bits.cuh"
#include "wgmma.cuh"

namespace {

// Enums, because NVRTC would make writable device globals of constants.
enum : int {
  kRows = 64 * CONSUMERS,  // of the weights
  kTileW = kRows * 128,
  kTileX = WIDTH * 128,
  kRowsOfXAt = STAGES * kTileW,
  kBarriersAt = kRowsOfXAt + STAGES * kTileX,
  kProductsAt = 0,    // in the place of the tiles, once these have been multiplied
  kPitch = kRows + 4  // floats of one row of x in the products
};
enum : int { Full = 0, Empty = STAGES };  // barriers, 8 bytes each

__device__ __forceinline__ void barrier_arrive(u32 barrier) {
  asm volatile("{ .reg .b64 t; mbarrier.arrive.shared::cta.b64 t, [%0]; }" ::"r"(barrier) : "memory");
}

__device__ __forceinline__ void begin_barriers(u32 memory) {
  if (threadIdx.x == 0) {
    for (int s = 0; s < STAGES; ++s) {
      barrier_init(memory + kBarriersAt + 8 * (Full + s), 1);
      barrier_init(memory + kBarriersAt + 8 * (Empty + s), 4 * CONSUMERS);  // each warp that multiplies
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
}

// A warp's products to shared memory, rows of the weights by rows of x, when all warps have multiplied.
__device__ __forceinline__ void keep_products(u32 memory, int warpgroup, int lane, const float (&c)[WIDTH / 2]) {
  asm volatile("bar.sync 1, %0;" ::"n"(128 * CONSUMERS) : "memory");  // nobody reads the tiles any more
  // Element 4 j + 2 r + e: row lane / 4 + 8 r of the warp's 16 rows of the weights, row 8 j + lane % 4 * 2 + e of x.
  const int row = warpgroup * 64 + threadIdx.x % 128 / 32 * 16 + lane / 4;
#pragma unroll
  for (int i = 0; i < WIDTH / 2; ++i) {
    const int m = i / 4 * 8 + lane % 4 * 2 + i % 2;
    asm volatile(
        "st.shared.f32 [%0], %1;" ::"r"(memory + kProductsAt + 4 * (m * kPitch + row + i / 2 % 2 * 8)),
        "f"(c[i])
        : "memory");
  }
}

// Four products that follow each other, of all blocks.
__device__ __forceinline__ float4 sum_of(u32 memory, int m, int i, int parts) {
  float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  for (int part = 0; part < parts; ++part) {
    float4 x;
    asm volatile(
        "{ .reg .b32 there; mapa.shared::cluster.u32 there, %4, %5; "
        "ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [there]; }"
        : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
        : "r"(memory + kProductsAt + 4 * (m * kPitch + i)), "r"(part)
        : "memory");
    sum.x += x.x, sum.y += x.y, sum.z += x.z, sum.w += x.w;
  }
  return sum;
}

// Four elements of row m of y, from column n + i on.
__device__ __forceinline__ void store_four(Element* y, int m, int n, int i, int N, const float (&values)[4]) {
  Element* const to = y + static_cast<long long>(m) * N + n + i;
  const u32 low = pack(values[0], values[1]), high = pack(values[2], values[3]);
  if (N % 4 == 0) {
    *reinterpret_cast<uint2*>(to) = make_uint2(low, high);
  } else {
    const Element each[4] = {static_cast<Element>(low), static_cast<Element>(low >> 16),
                             static_cast<Element>(high), static_cast<Element>(high >> 16)};
#pragma unroll
    for (int e = 0; e < 4; ++e)
      if (n + i + e < N) to[e] = each[e];
  }
}

}  // namespace
