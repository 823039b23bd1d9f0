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
  kBarriersAt = kWeightsAt + STAGES * kTileW
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

// Arrives at the barrier that lies at the same place in another block of the cluster.
__device__ __forceinline__ void barrier_arrive(u32 barrier, u32 rank) {
  asm volatile(
      "{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1; "
      "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there]; }" ::"r"(barrier),
      "r"(rank)
      : "memory");
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

// What a warpgroup does: tile after tile it multiplies, and then calls finish(tile, products).
template <int columns, class Finish>
__device__ __forceinline__ void multiply_tiles(const Shape& shape, u32 memory, u32 rank, int warpgroup,
                                               const Finish& finish) {
  const u32 lane = threadIdx.x % 32;
  const auto release = [&](int stage) {
    if (lane < PAIR)
      barrier_arrive(memory + kBarriersAt + 8 * (Empty + stage), PAIR == 2 ? lane : rank_in_cluster());
  };
  Ring ring;
  const int pairs = shape.m_pairs * shape.n_tiles, clusters = gridDim.x / PAIR;
  for (int index = blockIdx.x / PAIR; index < pairs; index += clusters) {
    const Tile<columns> tile(index, shape, rank);
    float c[WIDTH / 2];
    int before = -1;  // the stage whose products may still be under way
    for (int k = 0; k < shape.K; k += 64) {
      barrier_wait(memory + kBarriersAt + 8 * (Full + ring.stage), ring.phase);
      products_begin();
      multiply(c, describe(memory + ring.stage * kTileX + (warpgroup - 1) * 64 * 128),
               describe(memory + kWeightsAt + ring.stage * kTileW), k > 0);
      products_commit();
      products_wait<1>();
      if (before >= 0) release(before);
      before = ring.stage;
      ring.advance();
    }
    products_wait<0>();
    pin(c);
    release(before);
    finish(tile, c);
  }
}

// Eight elements of a row of y, from column `n` on.
__device__ __forceinline__ void store_eight(Element* y, long long row, int n, int N, const u32 (&x)[4]) {
  Element* const to = y + row * N + n;
  if (N % 8 == 0) {
    if (n < N) *reinterpret_cast<uint4*>(to) = make_uint4(x[0], x[1], x[2], x[3]);
  } else {
#pragma unroll
    for (int e = 0; e < 8; ++e)
      if (n + e < N) to[e] = static_cast<Element>(x[e / 2] >> 16 * (e % 2));
  }
}

// The first `count` columns of a warp's products to y, from row `first` and column `n` on. A thread has 2 of every 8 columns of two
// rows, 8 apart; the four threads of a row swap until each has 8 in a row.
template <int count>
__device__ __forceinline__ void store_products(Element* y, int first, int n, const Shape& shape,
                                               const float (&c)[WIDTH / 2]) {
  const int quarter = threadIdx.x % 4;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = first + 8 * r;
#pragma unroll
    for (int i = 0; i < count / 32; ++i) {
      u32 x[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) x[e] = pack(c[16 * i + 4 * e + 2 * r], c[16 * i + 4 * e + 2 * r + 1]);
      exchange(x[0], x[1], quarter & 1, 1);
      exchange(x[2], x[3], quarter & 1, 1);
      exchange(x[0], x[2], quarter & 2, 2);
      exchange(x[1], x[3], quarter & 2, 2);
      if (row < shape.M) store_eight(y, row, n + 32 * i + 8 * quarter, shape.N, x);
    }
  }
}

}  // namespace
