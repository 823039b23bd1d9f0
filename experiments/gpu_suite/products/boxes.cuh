// Boxes of matrices, copied to shared memory through the manifest's tensor maps. What lies outside of a matrix is 0.
#pragma once

using u32 = unsigned;

struct alignas(64) CUtensorMap {
  unsigned long long opaque[16];
};

namespace {

// From column `k` of row `row` on; the barrier counts the bytes.
__device__ __forceinline__ void load_box(u32 to, const CUtensorMap* map, u32 barrier, int k, int row) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, "
      "%4}], [%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(k), "r"(row)
      : "memory");
}
// The same, of what is read once.
__device__ __forceinline__ void load_box_once(u32 to, const CUtensorMap* map, u32 barrier, int k, int row) {
  asm volatile(
      "{ .reg .b64 policy; createpolicy.fractional.L2::evict_first.b64 policy, 1.0; "
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint [%0], "
      "[%1, {%3, %4}], [%2], policy; }" ::"r"(to),
      "l"(map), "r"(barrier), "r"(k), "r"(row)
      : "memory");
}
// To the L2 cache.
__device__ __forceinline__ void prefetch_box(const CUtensorMap* map, int k, int row) {
  asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%0, {%1, %2}];" ::"l"(map), "r"(k), "r"(row)
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
