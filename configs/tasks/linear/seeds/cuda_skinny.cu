/*--- cultivar
name: linear_skinny
task: linear
target: cuda
about: "Few rows of x: the weights' rows ride in wgmma's M and the rows of x in its N; K is split over the blocks of a cluster, which add up their parts in shared memory."
requires: "dtype != f32 && K % 8 == 0 && M <= 64"
tunables:
  CONSUMERS: {values: [1, 2], default: 2}   # warpgroups that multiply, 64 rows of w each
  STAGES: {values: [3, 4, 6, 8, 10], default: 4}  # tiles in flight
  SPLIT: {values: [1, 2, 4, 8], default: 8}     # parts of K, at most
  WAVES: {values: [1, 2, 4], default: 2}        # blocks for a multiprocessor that the parts are chosen for
constraints:
  - "smem <= smem_max"
specialize: [dtype, WIDTH]
headers: [activations.cuh, approximate.cuh, barriers.cuh, boxes.cuh, sixteen_bits.cuh, skinny.cuh, wgmma.cuh]
let:
  WIDTH: "M <= 8 ? 8 : M <= 16 ? 16 : M <= 32 ? 32 : 64"  # rows of x, in wgmma's N
  weights: "64 * CONSUMERS"  # rows of w in a tile
  smem: "STAGES * (weights + WIDTH) * 128 + 1024 + 256"  # 1024 to align, 256 for barriers
  n_tiles: "ceil_div(N, weights)"
  wanted: "2 ^ floor(log2(max(1, num_sms * WAVES / n_tiles)))"
  possible: "2 ^ floor(log2(max(1, K / 256)))"
  split: "min(SPLIT, min(wanted, possible))"
tensor_maps:
  map_x: {tensor: x, sizes: [K, M], strides: [K], box: [64, WIDTH], swizzle: 128B, l2_promotion: 128B}
  map_w: {tensor: w, sizes: [K, N], strides: [K], box: [64, weights], swizzle: 128B, l2_promotion: 256B}
launch:
  - kernel: linear
    grid: ["n_tiles * split", 1, 1]
    block: ["weights * 2 + 128", 1, 1]
    cluster: [split, 1, 1]
    shared: smem
    args: [map_x, map_w, bias, y, M, N, K, split, with_bias, gelu]
---*/

// A cluster has as many columns of y as a tile has rows of w, its blocks each a part of K. Products are kept transposed: rows of
// w by rows of x. The last warpgroup feeds the others through TMA, 64 of K at a time. At the end each block puts its products
// into shared memory, and each makes some rows of y from those of all, in a fixed order.

#include "activations.cuh"
#include "boxes.cuh"
#include "skinny.cuh"

enum : int { kColumns = 64 * CONSUMERS };  // of y

extern "C" __global__ void __launch_bounds__(128 * CONSUMERS + 128)
    linear(const __grid_constant__ CUtensorMap map_x, const __grid_constant__ CUtensorMap map_w,
           const Element* bias, Element* y, int M, int N, int K, int split, int with_bias, int gelu) {
  extern __shared__ char shared[];
  const u32 memory = (static_cast<u32>(__cvta_generic_to_shared(shared)) + 1023) / 1024 * 1024;
  const int rank = blockIdx.x % split, n = blockIdx.x / split * kColumns;
  const int steps = (K + 63) / 64, begin = steps * rank / split, end = steps * (rank + 1) / split;
  begin_barriers(memory);
  const int warpgroup = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0), lane = threadIdx.x % 32;
  if (warpgroup == CONSUMERS) {
    if (threadIdx.x % 128 == 0) {
      Ring ring;
      for (int k = begin; k < end; ++k) {
        const u32 full = memory + kBarriersAt + 8 * (Full + ring.stage),
                  weights = memory + ring.stage * kTileW;
        barrier_wait(memory + kBarriersAt + 8 * (Empty + ring.stage), ring.phase ^ 1);
        barrier_expect(full, kTileW + kTileX);
        load_box(weights, &map_w, full, 64 * k, n);
        load_box(memory + kRowsOfXAt + ring.stage * kTileX, &map_x, full, 64 * k, 0);
        ring.advance();
      }
    }
    __syncwarp();
  } else {
    const auto release = [&](int stage) {
      if (lane == 0) barrier_arrive(memory + kBarriersAt + 8 * (Empty + stage));
    };
    Ring ring;
    float c[WIDTH / 2];
    int before = -1;  // the stage whose products may still be under way
    for (int k = begin; k < end; ++k) {
      barrier_wait(memory + kBarriersAt + 8 * (Full + ring.stage), ring.phase);
      products_begin();
      multiply(c, describe(memory + ring.stage * kTileW + warpgroup * 64 * 128),
               describe(memory + kRowsOfXAt + ring.stage * kTileX), k > begin);
      products_commit();
      products_wait<1>();
      if (before >= 0) release(before);
      before = ring.stage;
      ring.advance();
    }
    products_wait<0>();
    pin(c);
    keep_products(memory, warpgroup, lane, c);
  }
  __syncthreads();  // racecheck does not know that the next barrier orders accesses of one block, too
  cluster_sync();

  const int quads = kColumns / 4;
  for (int at = rank * blockDim.x + threadIdx.x; at < M * quads; at += blockDim.x * split) {
    const int m = at / quads, i = at % quads * 4;
    if (n + i >= N) continue;
    const float4 sums = sum_of(memory, m, i, split);
    float values[4] = {sums.x, sums.y, sums.z, sums.w};
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      if (with_bias && n + i + e < N) values[e] += widened(bias[n + i + e]);
      if (gelu) values[e] = gelu_by_tanh(values[e]);
    }
    store_four(y, m, n, i, N, values);
  }
  cluster_sync();  // others may still read this block's products
}
