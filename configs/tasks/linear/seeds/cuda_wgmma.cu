/*--- cultivar
name: linear_wgmma
task: linear
target: cuda
about: "Hopper: resident blocks take tile after tile; one warp feeds them through TMA, two warpgroups multiply with wgmma; two blocks share tiles of the weights by multicast."
requires: "dtype != f32 && K % 8 == 0"
tunables:
  BLOCK_N: {values: [128, 192, 256], default: 256}  # rows of w in a tile
  STAGES: {values: [3, 4, 5, 6], default: 4}        # tiles in flight
  CLUSTER: {values: [1, 2], default: 2}             # blocks that share the weights' tiles
  GROUP: {values: [1, 2, 4, 8, 16, 32], default: 8}  # pairs of row blocks that are worked on before the next columns
constraints:
  - "smem <= smem_max"
specialize: [dtype, PAIR]
headers: [activations.cuh, approximate.cuh, barriers.cuh, boxes.cuh, sixteen_bits.cuh, tiles.cuh, wgmma.cuh, wgmma_wide.cuh]
let:
  PAIR: "CLUSTER == 2 && M > 128 ? 2 : 1"
  smem: "STAGES * (128 + BLOCK_N) * 128 + 1024 + 256"  # 1024 to align, 256 for barriers
  columns: "BLOCK_N"  # of y, in a tile
  m_pairs: "ceil_div(M, 128 * PAIR)"
  n_tiles: "ceil_div(N, columns)"
tensor_maps:
  map_x: {tensor: x, sizes: [K, M], strides: [K], box: [64, 128], swizzle: 128B, l2_promotion: 128B}
  map_w: {tensor: w, sizes: [K, N], strides: [K], box: [64, BLOCK_N / PAIR], swizzle: 128B, l2_promotion: 256B}
launch:
  - kernel: linear
    grid: ["PAIR * min(floor(num_sms / PAIR), m_pairs * n_tiles)", 1, 1]
    block: [384, 1, 1]
    cluster: [PAIR, 1, 1]
    shared: smem
    args: [map_x, map_w, bias, y, M, N, K, m_pairs, n_tiles, with_bias, gelu]
---*/

// A tile of y has 128 rows, 64 for each of two warpgroups, and BLOCK_N columns. The first
// warpgroup gives its registers away; one thread of it copies tiles of x and of the weights, 64 of K wide, into a ring of
// STAGES buffers with TMA's 128-byte swizzle. Two blocks of a cluster have the same columns and rows that follow each other: each
// copies one half of the weights to both. TMA fills with zeros what lies outside of a matrix.

#define WIDTH BLOCK_N

#include "activations.cuh"
#include "boxes.cuh"
#include "tiles.cuh"

namespace {

enum : int { kColumns = WIDTH };  // of y, in a tile
using YTile = Tile<kColumns>;

struct Maps {
  const CUtensorMap *x, *w;
};

// One thread feeds this block, and its half of the weights both blocks of the pair.
__device__ __forceinline__ void produce(const Maps& maps, const Shape& shape, u32 memory, u32 rank) {
  Ring ring;
  const int pairs = shape.m_pairs * shape.n_tiles, clusters = gridDim.x / PAIR;
  for (int index = blockIdx.x / PAIR; index < pairs; index += clusters) {
    const YTile tile(index, shape, rank);
    const int n = tile.n;
    for (int k = 0; k < shape.K; k += 64) {
      const u32 full = memory + kBarriersAt + 8 * (Full + ring.stage);
      const u32 weights = memory + kWeightsAt + ring.stage * kTileW;
      barrier_wait(memory + kBarriersAt + 8 * (Empty + ring.stage), ring.phase ^ 1);
      barrier_expect(full, kTileX + kTileW);
      load_box(memory + ring.stage * kTileX, maps.x, full, k, tile.m);
      const int half = WIDTH / PAIR * static_cast<int>(rank);
      if (PAIR == 2)
        load_box_for_both(weights + half * 128, maps.w, full, k, n + half);
      else
        load_box(weights, maps.w, full, k, n);
      ring.advance();
    }
  }
}

// Products to elements of y.
__device__ __forceinline__ void finish(const Element* bias, Element* y, const YTile& tile, const Shape& shape,
                                       bool gelu, float (&c)[WIDTH / 2]) {
  const int lane = threadIdx.x % 32, quarter = lane % 4;
  const int first = tile.m + (threadIdx.x / 128 - 1) * 64 + threadIdx.x % 128 / 32 * 16 + lane / 4;
  if (bias != nullptr) {
#pragma unroll
    for (int j = 0; j < WIDTH / 8; ++j)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int n = tile.n + 8 * j + 2 * quarter + e;
        const float b = n < shape.N ? widened(bias[n]) : 0.0f;
        c[4 * j + e] += b, c[4 * j + 2 + e] += b;
      }
  }
  if (gelu) {
#pragma unroll
    for (int i = 0; i < WIDTH / 2; ++i) c[i] = gelu_by_tanh(c[i]);
  }
  store_products<kColumns>(y, first, tile.n, shape, c);
}

}  // namespace

extern "C" __global__ void __launch_bounds__(384, 1)
    linear(const __grid_constant__ CUtensorMap map_x, const __grid_constant__ CUtensorMap map_w,
           const Element* bias, Element* y, int M, int N, int K, int m_pairs, int n_tiles, int with_bias,
           int gelu) {
  extern __shared__ char shared[];
  const u32 memory = (static_cast<u32>(__cvta_generic_to_shared(shared)) + 1023) / 1024 * 1024;
  const u32 rank = PAIR == 2 ? rank_in_cluster() : 0;
  const Maps maps{&map_x, &map_w};
  const Shape shape{M, N, K, m_pairs, n_tiles};
  begin_barriers(memory);
  const int warpgroup = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);
  if (warpgroup == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    if (threadIdx.x == 0) produce(maps, shape, memory, rank);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    multiply_tiles<kColumns>(shape, memory, rank, warpgroup, [&](const YTile& tile, float(&c)[WIDTH / 2]) {
      finish(with_bias ? bias : nullptr, y, tile, shape, gelu != 0, c);
    });
  }
  if (PAIR == 2) cluster_sync();  // the other block still writes to this one's memory
}
