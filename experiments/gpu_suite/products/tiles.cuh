// Tiles of 128 rows of x times WIDTH rows of weights, for resident blocks that take tile after tile: one thread copies tiles of 64 of
// K into STAGES buffers, two warpgroups multiply, 64 rows of x each. PAIR blocks of a cluster work together (1 or 2).
// If FEW: 64 rows of x times twice WIDTH rows of weights, WIDTH for each warpgroup.
#pragma once

#include "barriers.cuh"
#include "sixteen_bits.cuh"
#include "wgmma_wide.cuh"

#include "wgmma.cuh"

namespace {

// Enums, because NVRTC would make writable device globals of constants.
enum : int {
  kTileX = (FEW ? 64 : 128) * 128,
  kTileW = (FEW ? 2 : 1) * WIDTH * 128,
  kWeightsAt = STAGES * kTileX,
  kProductsAt = kWeightsAt + STAGES * kTileW,  // 16 rows of 256 bytes for each warp
  kBarriersAt = kProductsAt + 8 * 4096
};
enum : int { Full = 0, Empty = STAGES };  // barriers, 8 bytes each

struct Shape {
  int M, N, K, m_pairs, n_tiles;
};

template <int columns>  // of y, for a warpgroup in a tile
struct Tile {
  int m, n;  // the first row and column of y

  __device__ __forceinline__ Tile() {}

  // GROUP pairs of row blocks at a time, so that tiles of both inputs are met again in the L2 cache.
  __device__ __forceinline__ Tile(int index, const Shape& shape, int rank) {
    const int each = GROUP * shape.n_tiles, group = index / each, rest = index - group * each;
    const int high = min(GROUP, shape.m_pairs - group * GROUP);
    m = ((group * GROUP + rest % high) * PAIR + rank) * 128;
    n = rest / high * columns * (FEW ? 2 : 1);
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
  int ahead = SKEW > 0 && warpgroup == 1 ? min(SKEW + 1, steps) : 0;
  if (SKEW > 0 && warpgroup == 2) asm volatile("bar.sync 1, 256;" ::: "memory");
  for (int index = blockIdx.x / PAIR; index < pairs; index += clusters) {
    Tile<columns> tile;
    float c[WIDTH / 2];
    int before = -1;  // the stage whose products may still be under way
    for (int step = 0; step < steps; ++step) {
      barrier_wait(memory + kBarriersAt + 8 * (Full + ring.stage), ring.phase);
      products_begin();
      const u32 x = memory + ring.stage * kTileX, w = memory + kWeightsAt + ring.stage * kTileW,
                own = (warpgroup - 1) * (FEW ? WIDTH : 64) * 128;
      multiply(c, describe(FEW ? x : x + own), describe(FEW ? w + own : w), step > 0);
      products_commit();
      if (step == 0) tile = Tile<columns>(index, shape, rank);
      products_wait<1>();
      if (SKEW > 0 && --ahead == 0) asm volatile("bar.arrive 1, 256;" ::: "memory");
      if (before >= 0) release(before);
      before = ring.stage;
      ring.advance();
    }
    prepare(tile);
    products_wait<0>();
    release(before);
    pin(c);
    if (tile.m < shape.M) finish(tile, c);
  }
}

// A warp's 16 rows of `count` columns of a tile to y; two(i) is what the products i and i + 1 of the first `count` columns became. They go by
// way of the warp's 4096 bytes of shared memory: there, chunks of 16 bytes of a row are permuted, and each instruction writes whole
// rows of y.
template <int count, class Of>
__device__ __forceinline__ void store_products(Element* y, u32 memory, const Tile<count>& tile,
                                               const Shape& shape, const Of& two) {
  enum : int {
    passes = (count + 127) / 128,
    chunks = count / passes / 8,  // of a row, in a pass
    lanes = chunks > 8   ? 16
            : chunks > 4 ? 8
            : chunks > 2 ? 4
                         : 2,  // for a row
    step = 32 / lanes          // rows of an instruction
  };
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32 - 4, buffer = memory + kProductsAt + warp * 4096;
  const u32 to_shared = buffer + lane % 16 * 256 + (lane / 16 ^ lane % 8) * 16;
  const u32 row = lane / lanes, chunk = lane % lanes;
  const u32 from_shared = buffer + row * 256 + (chunk ^ row % 8) * 16;
  const int left =
      shape.M - tile.m - static_cast<int>((FEW ? warp % 4 : warp) * 16 + row);  // rows, from this one on
  const int column = tile.n + static_cast<int>((FEW ? warp / 4 * count : 0) + chunk * 8);
  Element* const to = y + static_cast<long long>(shape.M - left) * shape.N + column;
#pragma unroll
  for (int pass = 0; pass < passes; ++pass) {
    __syncwarp();
#pragma unroll
    for (int j = 0; j < chunks; j += 2) {
      const int from = pass * chunks * 4 + 4 * j;
      asm volatile(
          "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to_shared ^ j * 16),
          "r"(two(from)), "r"(two(from + 2)), "r"(two(from + 4)), "r"(two(from + 6))
          : "memory");
    }
    __syncwarp();
    const auto chunk_of = [&](int i) {
      uint4 x;
      asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
                   : "r"((from_shared ^ i * step % 8 * 16) + i * step * 256)
                   : "memory");
      return x;
    };
    const int n = chunk < chunks ? column + pass * chunks * 8 : shape.N;
    if (shape.N % 8 == 0) {
      uint4 x[16 / step];
#pragma unroll
      for (int i = 0; i < 16 / step; ++i) x[i] = chunk_of(i);
#pragma unroll
      for (int i = 0; i < 16 / step; ++i)
        if (n < shape.N && i * step < left)
          *reinterpret_cast<uint4*>(to + static_cast<long long>(i * step) * shape.N + pass * chunks * 8) =
              x[i];
    } else {
#pragma unroll 1
      for (int i = 0; i < 16 / step; ++i) {
        const uint4 x = chunk_of(i);
        const u32 pairs[4] = {x.x, x.y, x.z, x.w};
        Element* const eight = to + static_cast<long long>(i * step) * shape.N + pass * chunks * 8;
#pragma unroll
        for (int e = 0; e < 8; ++e)
          if (n + e < shape.N && i * step < left)
            eight[e] = static_cast<Element>(pairs[e / 2] >> 16 * (e % 2));
      }
    }
  }
}

}  // namespace
