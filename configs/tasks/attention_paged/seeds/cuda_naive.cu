/*--- cultivar
name: attention_paged_warp_per_query
task: attention_paged
target: cuda
about: "A warp per query: its lanes share out the head and sum each key's product across, key by key through the page table."
requires: "D % 32 == 0 && D <= 256 && scale > 0"
tunables:
  WARPS: {values: [2, 4, 8, 16], default: 4}  # of a block; neighbours, which meet the same keys in the cache
  KEYS: {values: [1, 2, 4, 8], default: 4}    # read before the softmax moves on; a page has a multiple of them
specialize: [D, causal, dtype]
let:
  rows: "B * H * S_q"
launch:
  - kernel: attention_paged
    grid: ["ceil_div(rows, WARPS)", 1, 1]
    block: [32, WARPS, 1]
    args: [q, k_pages, v_pages, page_table, lengths, o, lse, rows, H, H_kv, S_q, M, PAGE, scale]
---*/

namespace {

// An enum, because NVRTC would make writable device globals of constants.
enum : int { kHead = D, kMasked = causal, kPart = kHead / 32 };  // kPart: elements of a lane

#if defined(DTYPE_F32)
using Element = float;
__device__ float widened(Element x) {
  return x;
}
__device__ Element narrowed(float x) {
  return x;
}
#elif defined(DTYPE_F16)
using Element = unsigned short;
__device__ float widened(Element x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
  return y;
}
__device__ Element narrowed(float x) {
  Element y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}
#else
using Element = unsigned short;
__device__ float widened(Element x) {
  return __uint_as_float(static_cast<unsigned>(x) << 16);
}
__device__ Element narrowed(float x) {
  Element y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}
#endif

enum : int {
  kBytes = kPart * sizeof(Element),
  kPower = kBytes & -kBytes
};  // the largest power of two that divides it
struct alignas(kPower < 16 ? kPower : 16) Part {
  Element x[kPart];
};

__device__ float minus_infinity() {
  return __int_as_float(0xff800000);
}

}  // namespace

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    attention_paged(const Element* q, const Element* k, const Element* v, const int* page_table,
                    const int* lengths, Element* o, float* lse, int rows, int H, int H_kv, int S_q, int M,
                    int page_keys, float scale) {
  const int number = blockIdx.x * WARPS + threadIdx.y,
            lane = threadIdx.x;  // of a row: query by query, then head by head
  if (number >= rows) return;
  const int group = H / H_kv, g = number % group, row = number / group % S_q;
  const int h = number / group / S_q % H_kv * group + g, b = number / S_q / H, length = lengths[b];
  const int* const pages = page_table + static_cast<long long>(b) * M;
  const long long at = ((static_cast<long long>(b) * S_q + row) * H + h) * kHead + lane * kPart;
  const long long head = h / group * kHead + lane * kPart;
  const float scale2 = scale * 1.44269504f;

  float query[kPart], output[kPart] = {}, top = minus_infinity(), sum = 0.0f;
  Part part = *reinterpret_cast<const Part*>(q + at);
  for (int d = 0; d < kPart; ++d) query[d] = widened(part.x[d]);
  const int visible = kMasked ? max(0, row + length - S_q + 1) : length;

  for (int key = 0; key < visible; key += KEYS) {
    float logits[KEYS], value[KEYS][kPart];
    const int page = key / page_keys;
    const long long first = static_cast<long long>(pages[page]) * page_keys + (key - page * page_keys);
#pragma unroll
    for (int j = 0; j < KEYS; ++j) {  // the page ends behind them, though the sequence may end before
      const long long from = (first + j) * H_kv * kHead + head;
      const Part keys = *reinterpret_cast<const Part*>(k + from),
                 values = *reinterpret_cast<const Part*>(v + from);
      float dot = 0.0f;
      for (int d = 0; d < kPart; ++d) dot = fmaf(query[d], widened(keys.x[d]), dot);
      logits[j] = dot;
      for (int d = 0; d < kPart; ++d) value[j][d] = key + j < visible ? widened(values.x[d]) : 0.0f;
    }
    float high = top;
#pragma unroll
    for (int j = 0; j < KEYS; ++j) {
#pragma unroll
      for (int bit = 16; bit > 0; bit /= 2) logits[j] += __shfl_xor_sync(0xffffffffu, logits[j], bit);
      logits[j] = key + j < visible ? logits[j] * scale2 : minus_infinity();
      high = fmaxf(high, logits[j]);
    }
    const float base = high == minus_infinity() ? 0.0f : high;
    const float shrink = exp2f(top - base);
    top = high;
    sum *= shrink;
    for (int d = 0; d < kPart; ++d) output[d] *= shrink;
#pragma unroll
    for (int j = 0; j < KEYS; ++j) {
      const float weight = exp2f(logits[j] - base);
      sum += weight;
      for (int d = 0; d < kPart; ++d) output[d] = fmaf(weight, value[j][d], output[d]);
    }
  }

  const float factor = visible == 0 ? 0.0f : 1.0f / sum;
  for (int d = 0; d < kPart; ++d) part.x[d] = narrowed(output[d] * factor);
  *reinterpret_cast<Part*>(o + at) = part;
  if (lane == 0)
    lse[(static_cast<long long>(b) * H + h) * S_q + row] =
        visible == 0 ? minus_infinity() : (top + log2f(sum)) * 0.693147181f;
}
