// Tiles of 128 rows of x times WIDTH rows of weights, for resident blocks that take tile after tile: one thread copies tiles of 64 of
// K into STAGES buffers, two warpgroups multiply, 64 rows of x each. PAIR blocks of a cluster work together (1 or 2).
#pragma once

#include "barriers.cuh"
#include "sixteen_bits.cuh"
#include "wgmma_wide.cuh"

#include "wgmma.cuh"

namespace {

// Enums, because NVRTC would make writable device globals of constants.
enum : int {
  kTileX = 128 * 128,
  kTileW = WIDTH * 128,
  kWeightsAt = STAGES * kTileX,
  kProductsAt = kWeightsAt + STAGES * kTileW,  // 16 rows of 256 bytes for each warp
  kBarriersAt = kProductsAt + 8 * 4096
};
enum : int { Full = 0, Empty = STAGES };  // barriers, 8 bytes each

struct Shape {
  int M, N, K, m_pairs, n_tiles;
};

template <int columns>  // of y, in a tile
struct Tile {
  int m, n;  // the first row and column of y

  // GROUP pairs of row blocks at a time, so that tiles of both inputs are met again in the L2 cache.
  __device__ __forceinline__ Tile(int index, const Shape& shape, int rank) {
    const int each = GROUP * shape.n_tiles, group = index / each, rest = index - group * each;
    const int high = min(GROUP, shape.m_pairs - group * GROUP);
    m = ((group * GROUP + rest % high) * PAIR + rank) * 128;
    n = rest / high * columns;
  }
};

// The address of what lies at `here` in another block of the cluster.
__device__ __forceinline__ u32 address_in(u32 here, u32 rank) {
  u32 there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(rank));
  return there;
}
// A wider scope than the default would add a fence of the whole device and empty the L1 cache.
__device__ __forceinline__ void barrier_arrive(u32 barrier) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}

__device__ __forceinline__ void begin_barriers(u32 memory) {
  if (threadIdx.x == 0) {
    for (int s = 0; s < STAGES; ++s) {
      barrier_init(memory + kBarriersAt + 8 * (Full + s), 1);
      barrier_init(memory + kBarriersAt + 8 * (Empty + s),
                   8 * PAIR);  // each warp that multiplies, in both blocks
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
  if (PAIR == 2) cluster_sync();  // both have their barriers
}

// What a warpgroup does: tile after tile it multiplies, calls prepare(tile) while the last product is under way, and then
// finish(tile, products). The second warpgroup begins SKEW steps after the first, so that one of them multiplies while the other
// one finishes.
template <int columns, class Prepare, class Finish>
__device__ __forceinline__ void multiply_tiles(const Shape& shape, u32 memory, u32 rank, int warpgroup,
                                               const Prepare& prepare, const Finish& finish) {
  const u32 lane = threadIdx.x % 32;
  const u32 empty = address_in(memory + kBarriersAt + 8 * Empty, PAIR == 2 ? lane % 2 : rank_in_cluster());
  const auto release = [&](int stage) {
    if (lane < PAIR) barrier_arrive(empty + 8 * stage);
  };
  Ring ring;
  const int pairs = shape.m_pairs * shape.n_tiles, clusters = gridDim.x / PAIR;
  const int steps = (shape.K + 63) / 64;
  int ahead = SKEW > 0 && warpgroup == 1 ? min(SKEW, steps) : 0;
  if (SKEW > 0 && warpgroup == 2) asm volatile("bar.sync 1, 256;" ::: "memory");
  for (int index = blockIdx.x / PAIR; index < pairs; index += clusters) {
    const Tile<columns> tile(index, shape, rank);
    float c[WIDTH / 2];
    int before = -1;  // the stage whose products may still be under way
    for (int step = 0; step < steps; ++step) {
      barrier_wait(memory + kBarriersAt + 8 * (Full + ring.stage), ring.phase);
      products_begin();
      multiply(c, describe(memory + ring.stage * kTileX + (warpgroup - 1) * 64 * 128),
               describe(memory + kWeightsAt + ring.stage * kTileW), step > 0);
      products_commit();
      if (SKEW > 0 && --ahead == 0) asm volatile("bar.arrive 1, 256;" ::: "memory");
      products_wait<1>();
      if (before >= 0) release(before);
      before = ring.stage;
      ring.advance();
    }
    prepare(tile);
    products_wait<0>();
    release(before);
    pin(c);
    finish(tile, c);
  }
}

// The first `count` columns of a warp's products to y, from row `first` and column `n` on, by way of `buffer`, the warp's 4096 bytes
// of shared memory: there, chunks of 16 bytes of a row are permuted, and each instruction writes whole rows of y.
template <int count>
__device__ __forceinline__ void store_products(Element* y, u32 buffer, int first, int n, const Shape& shape,
                                               const float (&c)[WIDTH / 2]) {
  enum : int { passes = (count + 127) / 128, chunks = count / passes / 8 };
  const int lane = threadIdx.x % 32;
  const u32 corner = buffer + lane % 16 * 256 + (lane / 16 ^ lane % 8) * 16;
#pragma unroll
  for (int pass = 0; pass < passes; ++pass) {
    if (pass > 0) __syncwarp();
#pragma unroll
    for (int j = 0; j < chunks; j += 2) {
      const float* const from = c + pass * chunks * 4 + 4 * j;
      asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(corner ^ j * 16),
                   "r"(pack(from[0], from[1])), "r"(pack(from[2], from[3])), "r"(pack(from[4], from[5])),
                   "r"(pack(from[6], from[7]))
                   : "memory");
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < chunks / 2; ++i) {
      const int index = 32 * i + lane, r = index / chunks, chunk = index % chunks;
      const int row = first + r, column = n + (pass * chunks + chunk) * 8;
      u32 x[4];
      asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                   : "r"(buffer + r * 256 + (chunk ^ r % 8) * 16)
                   : "memory");
      Element* const to = y + static_cast<long long>(row) * shape.N + column;
      if (shape.N % 8 == 0) {
        if (row < shape.M && column < shape.N)
          *reinterpret_cast<uint4*>(to) = make_uint4(x[0], x[1], x[2], x[3]);
      } else {
#pragma unroll
        for (int e = 0; e < 8; ++e)
          if (row < shape.M && column + e < shape.N) to[e] = static_cast<Element>(x[e / 2] >> 16 * (e % 2));
      }
    }
  }
  __syncwarp();
}

}  // namespace
