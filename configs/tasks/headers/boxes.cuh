// Boxes of matrices, copied to shared memory through the manifest's tensor maps. What lies outside of a matrix is 0.
#pragma once

using u32 = unsigned;

struct alignas(64) CUtensorMap {
  unsigned long long opaque[16];
};

namespace {

__device__ __forceinline__ void prefetch_map(const CUtensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// From column `k` of row `row` on; the barrier counts the bytes.
__device__ __forceinline__ void load_box(u32 to, const CUtensorMap* map, u32 barrier, int k, int row) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, "
      "%4}], [%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(k), "r"(row)
      : "memory");
}
// To the same place in both blocks of a pair, each of which counts the bytes at its own barrier.
__device__ __forceinline__ void load_box_for_both(u32 to, const CUtensorMap* map, u32 barrier, int k,
                                                  int row) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%3, %4}], [%2], %5;" ::"r"(to),
      "l"(map), "r"(barrier), "r"(k), "r"(row), "h"(static_cast<unsigned short>(3))
      : "memory");
}

}  // namespace
