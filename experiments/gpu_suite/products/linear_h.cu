/*--- cultivar
name: linear_wgmma_apart
task: linear
target: cuda
about: "Hopper: resident blocks take tile after tile; one warp feeds them through TMA, two warpgroups multiply with wgmma, one a little after the other, so that one multiplies while the other finishes; two blocks share tiles of the weights by multicast."
requires: "dtype != f32 && K % 8 == 0"
tunables:
  WIDEST: {values: [128, 192, 224, 256], default: 256}  # rows of w in a tile, at most
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
  time_256: "ceil_div(m_pairs * ceil_div(N, 256) * PAIR, 132) * (256 + 12)"
  time_224: "ceil_div(m_pairs * ceil_div(N, 224) * PAIR, 132) * (224 + 14)"
  time_192: "ceil_div(m_pairs * ceil_div(N, 192) * PAIR, 132) * (192 + 18)"
  time_128: "ceil_div(m_pairs * ceil_div(N, 128) * PAIR, 132) * (128 + 24)"
  best: "min(WIDEST < 256 ? 1e18 : time_256, min(WIDEST < 224 ? 1e18 : time_224, min(WIDEST < 192 ? 1e18 : time_192, time_128)))"
  # the same if FEW, by rows of weights
  few_32: "ceil_div(ceil_div(N, 32), 132) * (32 + 8)"
  few_64: "ceil_div(ceil_div(N, 64), 132) * (64 + 8)"
  few_128: "ceil_div(ceil_div(N, 128), 132) * (128 + 8)"
  few_256: "ceil_div(ceil_div(N, 256), 132) * (256 + 8)"
  few: "min(few_32, min(few_64, min(few_128, few_256)))"
  WIDTH: "FEW ? (few_256 == few ? 128 : few_128 == few ? 64 : few_64 == few ? 32 : 16) : (WIDEST >= 256 && time_256 == best ? 256 : WIDEST >= 224 && time_224 == best ? 224 : WIDEST >= 192 && time_192 == best ? 192 : 128)"
  rows_x: "FEW ? 64 : 128"
  rows_w: "FEW ? 2 * WIDTH : WIDTH"  # in a tile
  STAGES: "floor(198400 / ((rows_x + rows_w) * 128))"  # what fits beside the products and barriers
  smem: "STAGES * (rows_x + rows_w) * 128 + 8 * 4096 + 1024 + 256"  # 1024 to align, 256 for barriers
  n_tiles: "ceil_div(N, rows_w)"
tensor_maps:
  map_x: {tensor: x, sizes: [K, M], strides: [K], box: [64, rows_x], swizzle: 128B, l2_promotion: 256B}
  map_w: {tensor: w, sizes: [K, N], strides: [K], box: [64, rows_w / PAIR], swizzle: 128B, l2_promotion: 256B}
launch:
  - kernel: linear
    grid: ["PAIR * min(floor(num_sms / PAIR), m_pairs * n_tiles)", 1, 1]
    block: [384, 1, 1]
    cluster: [PAIR, 1, 1]
    shared: smem
    args: [map_x, map_w, bias, y, M, N, K, m_pairs, n_tiles, with_bias, gelu]
---*/

// A tile of y has 128 rows, 64 for each of two warpgroups, and WIDTH columns. The first
// warpgroup gives its registers away; one thread of it copies tiles of x and of the weights, 64 of K wide, into a ring of
// STAGES buffers with TMA's 128-byte swizzle. Two blocks of a cluster have the same columns and rows that follow each other: each
// copies one half of the weights to both. TMA fills with zeros what lies outside of a matrix.

#include "activations.cuh"
#include "boxes.cuh"
#include "tiles.cuh"

namespace {

enum : int { kColumns = WIDTH };  // of y, for a warpgroup in a tile
using YTile = Tile<kColumns>;

struct Maps {
  const CUtensorMap *x, *w;
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
      const int half = WIDTH / 2 * static_cast<int>(rank);
      if (FEW)
        load_box_once(weights, maps.w, full, k, n);
      else if (PAIR == 2)
        load_box_for_both(weights + half * 128, maps.w, full, k, n + half);
      else
        load_box(weights, maps.w, full, k, n);
      if (AHEAD > 0 && step + AHEAD < steps) prefetch_box(maps.w, k + 64 * AHEAD, n + (PAIR == 2 ? half : 0));
      ring.advance();
    }
  }
}

// The first boxes to the L2 cache, while the blocks of a pair wait for each other.
__device__ __forceinline__ void prefetch_first(const Maps& maps, const Shape& shape, u32 rank) {
  const YTile tile(blockIdx.x / PAIR, shape, rank);
  for (int k = 0; k < min(shape.K, 64 * STAGES); k += 64) {
    prefetch_box(maps.x, k, tile.m);
    prefetch_box(maps.w, k, tile.n + WIDTH / 2 * static_cast<int>(rank));
  }
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
  if (PAIR == 2 && threadIdx.x == 32) prefetch_first(maps, shape, rank);
  begin_barriers(memory);
  const int warpgroup = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);
  if (warpgroup == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    if (threadIdx.x == 0) produce(maps, shape, memory, rank);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    u32 biases[WIDTH / 8];  // two columns each, those of this thread
    const auto prepare = [&](const YTile& tile) {
      if (!with_bias) return;
      const int first = tile.n + (FEW ? (warpgroup - 1) * WIDTH : 0), column = first + 2 * (threadIdx.x % 4);
      if (first + WIDTH <= N) {
#pragma unroll
        for (int j = 0; j < WIDTH / 8; ++j) biases[j] = *reinterpret_cast<const u32*>(bias + column + 8 * j);
        return;
      }
#pragma unroll
      for (int j = 0; j < WIDTH / 8; ++j) {
        const int n = column + 8 * j;
        biases[j] = n + 1 < N ? *reinterpret_cast<const u32*>(bias + n) : n < N ? bias[n] : 0;
      }
    };
    multiply_tiles<kColumns>(
        shape, memory, rank, warpgroup, prepare, [&](const YTile& tile, float(&c)[WIDTH / 2]) {
          if (with_bias) {
#pragma unroll
            for (int j = 0; j < WIDTH / 8; ++j) {
              const float low = widened(static_cast<Element>(biases[j])),
                          high = widened(static_cast<Element>(biases[j] >> 16));
              c[4 * j] += low, c[4 * j + 2] += low, c[4 * j + 1] += high, c[4 * j + 3] += high;
            }
          }
          if (gelu)
            store_products(y, memory, tile, shape, [&](int i) {
              float low = c[i], high = c[i + 1];
              gelu_of_both(low, high);
              return pack(low, high);
            });
          else
            store_products(y, memory, tile, shape, [&](int i) { return pack(c[i], c[i + 1]); });
        });
  }
  if (PAIR == 2) cluster_sync();  // the other block still writes to this one's memory
}
