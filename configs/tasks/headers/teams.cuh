// Reductions over the threads that have a row together.
#pragma once

namespace {

// The threads of a row are a part of a warp, or warps of a block, or the blocks of a cluster. Sums are made in a fixed
// order. Values of one reduction are overwritten by the one after the next, behind another barrier.
class Team {
 public:
  __device__ __forceinline__ Team(float* slots, int cluster) : slots_(slots), cluster_(cluster) {}

  template <class Combine>
  __device__ __forceinline__ float reduce(float value, float identity, const Combine& combine) {
    const int lanes = min(32, static_cast<int>(blockDim.x));
    for (int step = lanes / 2; step > 0; step /= 2)
      value = combine(value, __shfl_xor_sync(0xffffffffu, value, step));
    if (blockDim.x <= 32 && cluster_ == 1) return value;
    float* const slots = slots_ + turn_ * kSlots;
    turn_ ^= 1;
    const int lane = threadIdx.x % 32, warps = blockDim.x / 32;
    if (lane == 0) slots[threadIdx.y * 32 + threadIdx.x / 32] = value;
    __syncthreads();
    value = lane < warps ? slots[threadIdx.y * 32 + lane] : identity;
#pragma unroll
    for (int step = 16; step > 0; step /= 2)
      value = combine(value, __shfl_xor_sync(0xffffffffu, value, step));
    if (cluster_ == 1) return value;
    float* const of_block = slots + kSlots - 1;
    if (threadIdx.x == 0) *of_block = value;
    cluster_sync();
    value = identity;
    for (int rank = 0; rank < cluster_; ++rank) value = combine(value, in_block(of_block, rank));
    return value;
  }
  // Before a block ends: others may still read its values.
  __device__ __forceinline__ void end() const {
    if (cluster_ > 1) cluster_sync();
  }

  enum : int { kSlots = 32 * 32 + 1 };  // a warp of each of at most 32 rows of a block, and the block

 private:
  __device__ __forceinline__ static void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
  }
  __device__ __forceinline__ static float in_block(const float* here, int rank) {
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(here));
    float value;
    asm volatile(
        "{ .reg .b32 there; mapa.shared::cluster.u32 there, %1, %2; ld.shared::cluster.f32 %0, [there]; }"
        : "=f"(value)
        : "r"(address), "r"(rank)
        : "memory");
    return value;
  }

  float* const slots_;
  const int cluster_;
  int turn_ = 0;
};

struct Sum {
  __device__ __forceinline__ float operator()(float a, float b) const { return a + b; }
};

}  // namespace
