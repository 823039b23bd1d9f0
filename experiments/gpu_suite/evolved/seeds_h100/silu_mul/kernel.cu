/*--- cultivar
name: silu_mul_few_in_flight
task: silu_mul
target: cuda
about: "Vectors of 16 bytes of both inputs, several in flight; silu by ex2 and rcp; up to 64 MiB a tensor, few bytes in flight, so that the stream pushes few dirty lines out of L2."
tunables:
  BLOCK: {values: [128, 256, 512, 1024], default: 1024}
  EACH: {values: [1, 2, 4, 8], default: 1}          # vectors of 16 bytes that a thread has read before it computes
  PERSIST: {values: [0, 1, 2, 4, 8], default: 0}    # blocks of a multiprocessor, which take chunk after chunk; 0: a block a chunk
  LOADS: {values: [plain, streaming], default: plain}
  STORES: {values: [plain, streaming], default: streaming}
  KEEP: {values: [0, 1, 2], default: 2}             # SIZE 1 and 2: inputs leave the cache first, outputs stay in it; 2: and are asked to
  MID_BLOCK: {values: [128, 256, 512, 1024], default: 512}       # SIZE 1: threads of a block, with a vector of each input each
  MID_CAP: {values: [512, 1024, 1536, 2048], default: 2048}      # SIZE 1: threads of a multiprocessor
  ONE_WAVE: {values: [0, 1], default: 1}            # 0: what would be SIZE 2 is SIZE 1
  DEEP: {values: [2, 4], default: 4}                # SIZE 2: vectors of each input that a thread reads at once
constraints: ["MID_BLOCK <= MID_CAP"]
specialize: [dtype, SIZE, CHUNK_THREADS, CHUNK_EACH]
headers: [approximate.cuh, vectors.cuh]
let:
  # 0: much more than the cache holds, 1: outputs about as large as the cache, 2: one wave, 3: less than a vector for each thread
  SIZE: "R * C * element_bytes > 67108864 ? 0 : (R * C * element_bytes > (ONE_WAVE ? 8388608 : 1572864) ? 1 : (R * C * element_bytes > 1572864 ? 2 : 3))"
  CHUNK_THREADS: "SIZE == 1 ? MID_BLOCK : BLOCK"
  CHUNK_EACH: "SIZE == 1 ? 1 : EACH"
  chunk: "CHUNK_THREADS * CHUNK_EACH * 16 / element_bytes"
  chunks: "ceil_div(R * C, chunk)"
  vectors: "ceil_div(R * C * element_bytes, 16)"
  each: "SIZE == 2 ? DEEP : 1"
  most: "SIZE == 2 ? floor_div(2048, DEEP) : 1024"
  places: "SIZE == 2 ? num_sms * 2 : num_sms"
  fitted: "max(32, min(most, round_up(ceil_div(vectors, places * each), 32)))"
  threads: "SIZE < 2 ? CHUNK_THREADS : fitted"
  large_blocks: "SIZE == 0 && PERSIST > 0 ? min(chunks, num_sms * PERSIST) : chunks"
  blocks: "SIZE < 2 ? large_blocks : ceil_div(vectors, fitted * each)"
  held: "SIZE == 1 && MID_CAP < 2048 ? floor_div(233472, floor_div(MID_CAP, MID_BLOCK) + 1) : 0"  # shared memory that leaves no room for more blocks
launch:
  - kernel: silu_mul
    grid: [blocks, 1, 1]
    block: [threads, 1, 1]
    shared: held
    args: [gate, up, y, {value: "R * C", type: i64}]
---*/

// The tensors are taken as one row of elements, so that every shape is read by 16 bytes but for the last few elements.

#include "approximate.cuh"
#include "vectors.cuh"

#if SIZE >= 2

namespace {

#if SIZE == 2
enum : int { kEach = DEEP, kMost = 2048 / DEEP };
#else
enum : int { kEach = 1, kMost = 1024 };
#endif

// x / (1 + e^-x): the exponential is infinite, the result 0, where x is very small
__device__ __forceinline__ Vector activate(const Vector& gates, const Vector& ups) {
  float values[kVector], factors[kVector];
  widen(gates, values);
  widen(ups, factors);
#pragma unroll
  for (int e = 0; e < kVector; ++e)
    values[e] *= reciprocal(1.0f + exp2_fast(-1.44269504f * values[e])) * factors[e];
  return narrow(values);
}

}  // namespace

// The host fits the size of the blocks, so that all of them are resident at once and the multiprocessors have equal work.
extern "C" __global__ void __launch_bounds__(kMost, 2)
    silu_mul(const Element* gate, const Element* up, Element* y, long long total) {
  const int count = static_cast<int>(total);
  const int step = static_cast<int>(blockDim.x) * kVector;
  const int mine = static_cast<int>(blockIdx.x) * step * kEach + static_cast<int>(threadIdx.x) * kVector;
  if (mine + (kEach - 1) * step + kVector <= count) {
    Vector gates[kEach];
    Vector ups[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      gates[i].whole = load_whole(gate + mine + i * step);
      ups[i].whole = load_whole(up + mine + i * step);
    }
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const Vector result = activate(gates[i], ups[i]);
      store_whole(y + mine + i * step, result.whole);
    }
    return;
  }
#pragma unroll 1
  for (int at = mine, i = 0; i < kEach && at < count; ++i, at += step) {
    Vector a, b;
    if (at + kVector <= count) {
      a.whole = load_whole(gate + at);
      b.whole = load_whole(up + at);
      const Vector result = activate(a, b);
      store_whole(y + at, result.whole);
    } else {
#pragma unroll
      for (int e = 0; e < kVector; ++e) {
        a.part[e] = at + e < count ? gate[at + e] : Element{};
        b.part[e] = at + e < count ? up[at + e] : Element{};
      }
      const Vector result = activate(a, b);
#pragma unroll
      for (int e = 0; e < kVector; ++e)
        if (at + e < count) y[at + e] = result.part[e];
    }
  }
}

#else

extern "C" __global__ void __launch_bounds__(CHUNK_THREADS)
    silu_mul(const Element* gate, const Element* up, Element* y, long long count) {
  enum : int { kChunk = CHUNK_THREADS * CHUNK_EACH * kVector };
  for (long long first = static_cast<long long>(blockIdx.x) * kChunk; first < count;
       first += static_cast<long long>(gridDim.x) * kChunk) {
    const long long mine = first + static_cast<long long>(threadIdx.x) * kVector;
    Vector gates[CHUNK_EACH];
    Vector ups[CHUNK_EACH];
#pragma unroll
    for (int i = 0; i < CHUNK_EACH; ++i) {
      const long long at = mine + i * CHUNK_THREADS * kVector;
      if (at + kVector <= count) gates[i].whole = load_whole(gate + at), ups[i].whole = load_whole(up + at);
    }
#pragma unroll
    for (int i = 0; i < CHUNK_EACH; ++i) {
      const long long at = mine + i * CHUNK_THREADS * kVector;
      if (at >= count) break;
      const bool whole = at + kVector <= count;
      if (!whole) {
#pragma unroll
        for (int e = 0; e < kVector; ++e) {
          gates[i].part[e] = at + e < count ? gate[at + e] : Element{};
          ups[i].part[e] = at + e < count ? up[at + e] : Element{};
        }
      }
      float values[kVector], factors[kVector];
      widen(gates[i], values);
      widen(ups[i], factors);
#pragma unroll
      for (int e = 0; e < kVector;
           ++e)  // x / (1 + e^-x): the exponential is infinite, the result 0, where x is very small
        values[e] *= reciprocal(1.0f + exp2_fast(-1.44269504f * values[e])) * factors[e];
      const Vector result = narrow(values);
      if (whole) {
        store_whole(y + at, result.whole);
      } else {
#pragma unroll
        for (int e = 0; e < kVector; ++e)
          if (at + e < count) y[at + e] = result.part[e];
      }
    }
  }
}

#endif
