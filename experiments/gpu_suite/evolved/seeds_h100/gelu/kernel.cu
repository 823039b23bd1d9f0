/*--- cultivar
name: gelu_vectors
task: gelu
target: cuda
about: "Vectors of 16 bytes, several in flight; erfc by a rational approximation with ex2 and rcp, tanh by ex2 and rcp."
tunables:
  BLOCK: {values: [128, 256, 512, 1024], default: 128}
  EACH: {values: [1, 2, 4, 8], default: 1}          # vectors of 16 bytes that a thread has read before it computes
  PERSIST: {values: [0, 1, 2, 4, 8], default: 0}    # blocks of a multiprocessor, which take chunk after chunk; 0: a block a chunk
  LOADS: {values: [plain, streaming], default: plain}
  STORES: {values: [plain, streaming], default: plain}
  KEPT: {values: [0, 24, 36, 48, 1024], default: 1024}  # MiB at the end of y that L2 is asked to keep, whatever STORES says
specialize: [dtype]
headers: [activations.cuh, approximate.cuh, vectors.cuh]
let:
  chunk: "BLOCK * EACH * 16 / element_bytes"
  chunks: "ceil_div(R * C, chunk)"
launch:
  - kernel: gelu
    grid: ["PERSIST > 0 ? min(chunks, num_sms * PERSIST) : chunks", 1, 1]
    block: [BLOCK, 1, 1]
    args: [x, y, tanh_form, {value: "R * C", type: i64}, {value: "max(0, R * C - KEPT * 1048576 / element_bytes)", type: i64}]
---*/

// The tensors are taken as one row of elements, so that every shape is read by 16 bytes but for the last few elements.

#include "activations.cuh"
#include "vectors.cuh"

namespace {

// max(x, 0) - |x| / 2 * erfc(|x| / sqrt(2)): nothing cancels on either side of zero.
__device__ __forceinline__ float gelu_of(float x) {
  const float z = fabsf(x) * 0.707106781f;
#if defined(DTYPE_F32)
  const float erfc_z = erfcf(z);
#else  // Abramowitz and Stegun 7.1.26, absolute error 1.5e-7
  const float t = reciprocal(fmaf(0.3275911f, z, 1.0f));
  float p = fmaf(1.061405429f, t, -1.453152027f);
  p = fmaf(p, t, 1.421413741f);
  p = fmaf(p, t, -0.284496736f);
  p = fmaf(p, t, 0.254829592f);
  const float erfc_z = p * t * exp2_fast(-1.44269504f * z * z);
#endif
  return fmaf(-0.5f * fabsf(x), erfc_z, fmaxf(x, 0.0f));
}

}  // namespace

namespace {

__device__ __forceinline__ unsigned long long keeping() {
  unsigned long long policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
__device__ __forceinline__ void store_kept(Element* to, uint4 value, unsigned long long policy) {
  asm volatile("st.global.L2::cache_hint.v4.u32 [%0], {%1, %2, %3, %4}, %5;"
               :
               : "l"(to), "r"(value.x), "r"(value.y), "r"(value.z), "r"(value.w), "l"(policy)
               : "memory");
}

}  // namespace

// The chunks from element kept_from on are stored so that they stay in L2 as long as possible.
extern "C" __global__ void __launch_bounds__(BLOCK)
    gelu(const Element* x, Element* y, int tanh_form, long long count, long long kept_from) {
  enum : int { kChunk = BLOCK * EACH * kVector };
  for (long long first = static_cast<long long>(blockIdx.x) * kChunk; first < count;
       first += static_cast<long long>(gridDim.x) * kChunk) {
    const long long mine = first + static_cast<long long>(threadIdx.x) * kVector;
    Vector xs[EACH];
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
      const long long at = mine + i * BLOCK * kVector;
      if (at + kVector <= count) xs[i].whole = load_whole(x + at);
    }
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
      const long long at = mine + i * BLOCK * kVector;
      if (at >= count) break;
      const bool whole = at + kVector <= count;
      if (!whole) {
#pragma unroll
        for (int e = 0; e < kVector; ++e) {
          xs[i].part[e] = at + e < count ? x[at + e] : Element{};
        }
      }
      float values[kVector];
      widen(xs[i], values);
      if (tanh_form) {
#pragma unroll
        for (int e = 0; e < kVector; ++e) values[e] = gelu_by_tanh(values[e]);
      } else {
#pragma unroll
        for (int e = 0; e < kVector; ++e) values[e] = gelu_of(values[e]);
      }
      const Vector result = narrow(values);
      if (whole) {
        if (KEPT > 0 && first >= kept_from)
          store_kept(y + at, result.whole, keeping());
        else
          store_whole(y + at, result.whole);
      } else {
#pragma unroll
        for (int e = 0; e < kVector; ++e)
          if (at + e < count) y[at + e] = result.part[e];
      }
    }
  }
}
