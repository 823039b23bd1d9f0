/*--- cultivar
name: silu_mul_vectors
task: silu_mul
target: cuda
about: "Vectors of 16 bytes of both inputs, several in flight; silu by ex2 and rcp."
tunables:
  BLOCK: {values: [128, 256, 512, 1024], default: 256}
  EACH: {values: [1, 2, 4, 8], default: 2}          # vectors of 16 bytes that a thread has read before it computes
  PERSIST: {values: [0, 1, 2, 4, 8], default: 0}    # blocks of a multiprocessor, which take chunk after chunk; 0: a block a chunk
  LOADS: {values: [plain, streaming], default: streaming}
  STORES: {values: [plain, streaming], default: streaming}
specialize: [dtype]
headers: [approximate.cuh, vectors.cuh]
let:
  chunk: "BLOCK * EACH * 16 / element_bytes"
  chunks: "ceil_div(R * C, chunk)"
launch:
  - kernel: silu_mul
    grid: ["PERSIST > 0 ? min(chunks, num_sms * PERSIST) : chunks", 1, 1]
    block: [BLOCK, 1, 1]
    args: [gate, up, y, {value: "R * C", type: i64}]
---*/

// The tensors are taken as one row of elements, so that every shape is read by 16 bytes but for the last few elements.

#include "approximate.cuh"
#include "vectors.cuh"

extern "C" __global__ void __launch_bounds__(BLOCK)
    silu_mul(const Element* gate, const Element* up, Element* y, long long count) {
  enum : int { kChunk = BLOCK * EACH * kVector };
  for (long long first = static_cast<long long>(blockIdx.x) * kChunk; first < count;
       first += static_cast<long long>(gridDim.x) * kChunk) {
    const long long mine = first + static_cast<long long>(threadIdx.x) * kVector;
    Vector gates[EACH];
    Vector ups[EACH];
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
      const long long at = mine + i * BLOCK * kVector;
      if (at + kVector <= count) gates[i].whole = load_whole(gate + at), ups[i].whole = load_whole(up + at);
    }
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
      const long long at = mine + i * BLOCK * kVector;
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
