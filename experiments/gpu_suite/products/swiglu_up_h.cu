/*--- cultivar
name: swiglu_up_wgmma_apart
task: swiglu_up
target: cuda
about: "Hopper: resident blocks take tile after tile; one warp feeds them through TMA, two warpgroups multiply with wgmma, one a little after the other, so that one multiplies while the other finishes; two blocks share tiles of the weights by multicast."
requires: "dtype != f32 && K % 8 == 0"
tunables:
  WIDEST: {values: [128, 192, 224, 256], default: 256}  # rows of both weights in a tile, at most
  CLUSTER: {values: [1, 2], default: 2}  # blocks that share the weights' tiles
  GROUP: {values: [1, 2, 4, 8, 16, 32], default: 8}  # pairs of row blocks that are worked on before the next columns
  AHEAD: {values: [0, 4, 8, 16], default: 0}  # steps by which weights are asked for before they are copied
  SKEW: {values: [0, 1, 2], default: 2}  # steps between the two warpgroups
specialize: [dtype, FEW, PAIR, WIDTH, STAGES]
headers: [activations.cuh, approximate.cuh, barriers.cuh, boxes.cuh, sixteen_bits.cuh, tiles.cuh, wgmma.cuh, wgmma_wide.cuh]
let:
  FEW: "M <= 64"  # rows of x
  PAIR: "CLUSTER == 2 && M > 128 ? 2 : 1"
  m_pairs: "ceil_div(M, 128 * PAIR)"
  # rounds of the resident blocks times the width, with what a tile costs beside its products, for each width
  time_256: "ceil_div(m_pairs * ceil_div(N, 64) * PAIR, 132) * (256 + 12)"
  time_224: "ceil_div(m_pairs * ceil_div(N, 112) * PAIR, 132) * (224 + 14)"
  time_192: "ceil_div(m_pairs * ceil_div(N, 96) * PAIR, 132) * (192 + 18)"
  time_128: "ceil_div(m_pairs * ceil_div(N, 64) * PAIR, 132) * (128 + 24)"
  best: "min(WIDEST < 256 ? 1e18 : time_256, min(WIDEST < 224 ? 1e18 : time_224, min(WIDEST < 192 ? 1e18 : time_192, time_128)))"
  # the same if FEW, by rows of weights
  few_64: "ceil_div(ceil_div(N, 32), 132) * (64 + 8)"
  few_128: "ceil_div(ceil_div(N, 64), 132) * (128 + 8)"
  few_256: "ceil_div(ceil_div(N, 128), 132) * (256 + 8)"
  few: "min(few_64, min(few_128, few_256))"
  WIDTH: "FEW ? (few_256 == few ? 128 : few_128 == few ? 64 : 32) : (WIDEST >= 256 && time_256 == best ? 256 : WIDEST >= 224 && time_224 == best ? 224 : WIDEST >= 192 && time_192 == best ? 192 : 128)"
  rows_x: "FEW ? 64 : 128"
  rows_w: "FEW ? 2 * WIDTH : WIDTH"  # in a tile
  STAGES: "floor(198400 / ((rows_x + rows_w) * 128))"  # what fits beside the products and barriers
  smem: "STAGES * (rows_x + rows_w) * 128 + 8 * 4096 + 1024 + 256"  # 1024 to align, 256 for barriers
  columns: "rows_w / 2"  # of y, in a tile
  n_tiles: "ceil_div(N, columns)"
tensor_maps:
  map_x: {tensor: x, sizes: [K, M], strides: [K], box: [64, rows_x], swizzle: 128B, l2_promotion: 256B}
  map_gate: {tensor: w_gate, sizes: [K, N], strides: [K], box: [64, WIDTH / 2], swizzle: 128B, l2_promotion: 256B}
  map_up: {tensor: w_up, sizes: [K, N], strides: [K], box: [64, WIDTH / 2], swizzle: 128B, l2_promotion: 256B}
launch:
  - kernel: swiglu_up
    grid: ["PAIR * min(floor(num_sms / PAIR), m_pairs * n_tiles)", 1, 1]
    block: [384, 1, 1]
    cluster: [PAIR, 1, 1]
    shared: smem
    args: [map_x, map_gate, map_up, y, M, N, K, m_pairs, n_tiles]
---*/

// A tile of y has 128 rows, 64 for each of two warpgroups, and WIDTH / 2 columns. Rows of w_gate come first in the tile of the
// weights, then those of w_up: products of the same column are in the same thread. The first
// warpgroup gives its registers away; one thread of it copies tiles of x and of the weights, 64 of K wide, into a ring of
// STAGES buffers with TMA's 128-byte swizzle. Two blocks of a cluster have the same columns and rows that follow each other: each
// copies one half of the weights to both. TMA fills with zeros what lies outside of a matrix.

#include "activations.cuh"
#include "boxes.cuh"
#include "tiles.cuh"

namespace {

enum : int { kColumns = WIDTH / 2 };  // of y, for a warpgroup in a tile
using YTile = Tile<kColumns>;

struct Maps {
  const CUtensorMap *x, *gate, *up;
};

// One thread feeds this block, and its half of the weights both blocks of the pair.
__device__ __forceinline__ void produce(const Maps& maps, const Shape& shape, u32 memory, u32 rank) {
  Ring ring;
  const int pairs = shape.m_pairs * shape.n_tiles, clusters = gridDim.x / PAIR, steps = (shape.K + 63) / 64;
  // With few rows of x, all blocks would ask for the same lines of it at once.
  const int begin = FEW ? static_cast<int>(static_cast<long long>(blockIdx.x) * steps / gridDim.x) : 0;
  for (int index = blockIdx.x / PAIR; index < pairs; index += clusters) {
    const YTile tile(index, shape, rank);
    const int n = tile.n;
    for (int step = 0; step < steps; ++step) {
      const int k = 64 * (step + begin < steps ? step + begin : step + begin - steps);
      const u32 full = memory + kBarriersAt + 8 * (Full + ring.stage);
      const u32 weights = memory + kWeightsAt + ring.stage * kTileW;
      barrier_wait(memory + kBarriersAt + 8 * (Empty + ring.stage), ring.phase ^ 1);
      barrier_expect(full, kTileX + kTileW);
      load_box(memory + ring.stage * kTileX, maps.x, full, k, tile.m);
      if (FEW) {
#pragma unroll
        for (int part = 0; part < 4; ++part)  // of each warpgroup, gate and up
          load_box_once(weights + part * kColumns * 128, part % 2 == 0 ? maps.gate : maps.up, full, k,
                        n + part / 2 * kColumns);
      } else if (PAIR == 2) {
        load_box_for_both(weights + rank * kColumns * 128, rank == 0 ? maps.gate : maps.up, full, k, n);
      } else {
        load_box(weights, maps.gate, full, k, n);
        load_box(weights + kColumns * 128, maps.up, full, k, n);
      }
      if (AHEAD > 0 && PAIR == 2 && step + AHEAD < steps)
        prefetch_box(rank == 0 ? maps.gate : maps.up, k + 64 * AHEAD, n);
      ring.advance();
    }
  }
}

// The first boxes to the L2 cache, while the blocks of a pair wait for each other.
__device__ __forceinline__ void prefetch_first(const Maps& maps, const Shape& shape, u32 rank) {
  const YTile tile(blockIdx.x / PAIR, shape, rank);
  for (int k = 0; k < min(shape.K, 64 * STAGES); k += 64) {
    prefetch_box(maps.x, k, tile.m);
    prefetch_box(rank == 0 ? maps.gate : maps.up, k, tile.n);
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(384, 1)
    swiglu_up(const __grid_constant__ CUtensorMap map_x, const __grid_constant__ CUtensorMap map_gate,
              const __grid_constant__ CUtensorMap map_up, Element* y, int M, int N, int K, int m_pairs,
              int n_tiles) {
  extern __shared__ char shared[];
  const u32 memory = (static_cast<u32>(__cvta_generic_to_shared(shared)) + 1023) / 1024 * 1024;
  const u32 rank = PAIR == 2 ? rank_in_cluster() : 0;
  const Maps maps{&map_x, &map_gate, &map_up};
  const Shape shape{M, N, K, m_pairs, n_tiles};
  if (PAIR == 2 && threadIdx.x == 32) prefetch_first(maps, shape, rank);
  begin_barriers(memory);
  const int warpgroup = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);
  if (warpgroup == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    if (threadIdx.x == 0) produce(maps, shape, memory, rank);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    multiply_tiles<kColumns>(
        shape, memory, rank, warpgroup, [](const YTile&) {},
        [&](const YTile& tile, float(&c)[WIDTH / 2]) {
          store_products(y, memory, tile, shape, [&](int i) {
            float low = c[i], high = c[i + 1];
            silu_of_both(low, high);
            return pack(low * c[WIDTH / 4 + i], high * c[WIDTH / 4 + i + 1]);
          });
        });
  }
  if (PAIR == 2) cluster_sync();  // the other block still writes to this one's memory
}
