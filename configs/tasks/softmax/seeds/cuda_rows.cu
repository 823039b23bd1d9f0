/*--- cultivar
name: softmax_row_in_registers
task: softmax
target: cuda
about: "A row in the registers of a part of a warp, a block or a cluster; vectors of 16 bytes; one read and one write."
tunables:
  VECTORS: {values: [1, 2, 4, 8], default: 4}     # 16-byte vectors of a row in the registers of a thread
  BLOCK: {values: [128, 256, 512], default: 256}  # threads of a block, which has several rows if they are narrow
  WIDE: {values: [256, 512], default: 512}        # threads of a block for rows that need more: up to 8 blocks, a cluster
  SPREAD: {values: [0, 1], default: 1}            # few rows: a cluster for each, so that all multiprocessors work
  PERSIST: {values: [0, 1, 2, 4, 8], default: 0}  # blocks of a multiprocessor, which take row after row; 0: a block a row
  PREFETCH: {values: [0, 1], default: 0}          # the next row is read before this one is finished
  LOADS: {values: [plain, streaming], default: streaming}
  STORES: {values: [plain, streaming], default: streaming}
  KEEP: {values: [logits, weights], default: weights}  # in registers, between the sum and the result
specialize: [dtype, PER, ALIGNED]
headers: [approximate.cuh, rows.cuh, vectors.cuh, teams.cuh]
let:
  elements: "16 / element_bytes"  # of a vector
  ALIGNED: "C % elements == 0"    # every row begins at a multiple of 16 bytes
  vectors: "ceil_div(ALIGNED ? C : C + elements - 1, elements)"
  PER: "vectors <= 32 ? 1 : (ceil_div(vectors, VECTORS) > 8 * WIDE ? 8 : VECTORS)"  # of a thread; what is left is read again
  need: "PER == 1 && vectors <= 32 ? 2 ^ ceil(log2(vectors)) : round_up(ceil_div(vectors, PER), 32)"
  fitting: "need > WIDE ? min(8, 2 ^ ceil(log2(need / WIDE))) : 1"
  idle: "SPREAD && R * 2 <= num_sms ? min(8, 2 ^ floor(log2(num_sms / R))) : 1"
  blocks: "max(fitting, min(idle, 2 ^ floor(log2(max(1, vectors / 256)))))"  # of a row
  lanes: "blocks > 1 ? min(WIDE, round_up(ceil_div(vectors, blocks), 32)) : need"
  together: "blocks > 1 ? 1 : max(1, min(floor(BLOCK / lanes), round_up(max(1, floor(R / num_sms)), ceil_div(32, lanes))))"
  groups: "ceil_div(R, together)"
  each: "PERSIST > 0 ? min(groups, max(1, floor(num_sms * PERSIST / blocks))) : groups"
launch:
  - kernel: softmax
    grid: ["each * blocks", 1, 1]
    block: [lanes, together, 1]
    cluster: [blocks, 1, 1]
    args: [x, y, R, C, vectors, groups, blocks]
---*/

// A row is read once, by 16 bytes, and stays in registers, PER vectors of a thread. Vectors beyond these (of the widest rows
// only) are read again for each pass. `together` narrow rows share a block; a wide row has a cluster of blocks.

#include "approximate.cuh"
#include "rows.cuh"
#include "teams.cuh"

namespace {

struct Maximum {
  __device__ __forceinline__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

// Of one vector.
__device__ __forceinline__ float greatest(const Vector& x, float top) {
  float values[kVector];
  widen(x, values);
#pragma unroll
  for (int i = 0; i < kVector; ++i) top = fmaxf(top, values[i]);
  return top;
}
// Relative to the maximum of the row. The difference is formed before it is scaled: the weight of the maximum is exactly 1, and
// large logits give neither infinities nor errors of their own size. f32 shows the error of a scaled difference, 16 bits do not.
__device__ __forceinline__ void to_weights(const Vector& x, float top, float (&weights)[kVector]) {
  widen(x, weights);
#pragma unroll
#if defined(DTYPE_F32)
  for (int i = 0; i < kVector; ++i) weights[i] = expf(weights[i] - top);
#else
  for (int i = 0; i < kVector; ++i) weights[i] = exp2_fast((weights[i] - top) * 1.44269504f);
#endif
}
__device__ __forceinline__ float sum_of(const float (&values)[kVector]) {
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < kVector; ++i) sum += values[i];
  return sum;
}
__device__ __forceinline__ void store_scaled(const Row& row, Element* y, int v, float (&weights)[kVector],
                                             float factor) {
#pragma unroll
  for (int i = 0; i < kVector; ++i) weights[i] *= factor;
  row.store(y, v, weights);
}

enum : int { kKeep = KEEP == KEEP_weights && PER <= 4, kAhead = PREFETCH && PERSIST > 0 };

}  // namespace

extern "C" __global__ void __launch_bounds__(BLOCK > WIDE ? BLOCK : WIDE)
    softmax(const Element* x, Element* y, int R, int C, int vectors, int groups, int blocks) {
  __shared__ float slots[2 * Team::kSlots];
  Team team(slots, blocks);
  const int first = blockIdx.x % blocks * blockDim.x + threadIdx.x, stride = blockDim.x * blocks;
  const int step = gridDim.x / blocks;
  const float least = __int_as_float(0xff800000);  // -inf
#if defined(DTYPE_F32)
  const Element outside = least;
#elif defined(DTYPE_F16)
  const Element outside = 0xfc00;
#else
  const Element outside = 0xff80;
#endif

  Vector now[PER], next[PER];
  const auto read = [&](Vector(&to)[PER], int group) {
    const int index = group * blockDim.y + threadIdx.y;
    const Row row(index, C);
#pragma unroll
    for (int i = 0; i < PER; ++i) {
      if (index < R && first + i * stride < vectors)
        to[i] = row.load(x, first + i * stride, outside);
      else
#pragma unroll
        for (int e = 0; e < kVector; ++e) to[i].part[e] = outside;
    }
  };
  int group = blockIdx.x / blocks;
  if (kAhead) read(now, group);
  for (; group < groups; group += step) {
    if (!kAhead)
      read(now, group);
    else if (group + step < groups)
      read(next, group + step);
    const int index = group * blockDim.y + threadIdx.y;
    const Row row(index, C);
    const int end = index < R ? vectors : 0;

    float top = least;
#pragma unroll
    for (int i = 0; i < PER; ++i) top = greatest(now[i], top);
    for (int v = first + PER * stride; v < end; v += stride) top = greatest(row.load(x, v, outside), top);
    top = team.reduce(top, least, Maximum());

    float kept[kKeep ? PER : 1][kVector];
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < PER; ++i) {
      float(&weights)[kVector] = kept[kKeep ? i : 0];
      to_weights(now[i], top, weights);
      sum += sum_of(weights);
    }
    for (int v = first + PER * stride; v < end; v += stride) {
      float weights[kVector];
      to_weights(row.load(x, v, outside), top, weights);
      sum += sum_of(weights);
    }
    const float factor = 1.0f / team.reduce(sum, 0.0f, Sum());

#pragma unroll
    for (int i = 0; i < PER; ++i) {
      float(&weights)[kVector] = kept[kKeep ? i : 0];
      if (!kKeep) to_weights(now[i], top, weights);
      if (first + i * stride < end) store_scaled(row, y, first + i * stride, weights, factor);
    }
    for (int v = first + PER * stride; v < end; v += stride) {
      float weights[kVector];
      to_weights(row.load(x, v, outside), top, weights);
      store_scaled(row, y, v, weights, factor);
    }
    if (kAhead) {
#pragma unroll
      for (int i = 0; i < PER; ++i) now[i] = next[i];
    }
  }
  team.end();
}
