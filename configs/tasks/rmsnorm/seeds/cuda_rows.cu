/*--- cultivar
name: rmsnorm_row_in_registers
task: rmsnorm
target: cuda
about: "A row in the registers of a part of a warp, a block or a cluster; vectors of 16 bytes; blocks take row after row and keep the weights."
tunables:
  VECTORS: {values: [1, 2, 4, 8], default: 4}     # 16-byte vectors of a row in the registers of a thread
  BLOCK: {values: [128, 256, 512], default: 256}  # threads of a block, which has several rows if they are narrow
  WIDE: {values: [256, 512], default: 512}        # threads of a block for rows that need more: up to 8 blocks, a cluster
  SPREAD: {values: [0, 1], default: 1}            # few rows: a cluster for each, so that all multiprocessors work
  PERSIST: {values: [0, 1, 2, 4, 8], default: 0}  # blocks of a multiprocessor, which take row after row; 0: a block a row
  PREFETCH: {values: [0, 1], default: 0}          # the next row is read before this one is finished
  LOADS: {values: [plain, streaming], default: streaming}
  STORES: {values: [plain, streaming], default: streaming}
  WEIGHTS: {values: [early, late], default: early}  # read before the reduction (at most 4 vectors), or behind it
specialize: [dtype, PER, ALIGNED]
headers: [rows.cuh, vectors.cuh, teams.cuh]
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
  - kernel: rmsnorm
    grid: ["each * blocks", 1, 1]
    block: [lanes, together, 1]
    cluster: [blocks, 1, 1]
    args: [x, w, y, R, C, vectors, groups, blocks, eps]
---*/

// A row is read once, by 16 bytes, and stays in registers, PER vectors of a thread. Vectors beyond these (of the widest rows
// only) are read again for each pass. `together` narrow rows share a block; a wide row has a cluster of blocks.

#include "rows.cuh"
#include "teams.cuh"

namespace {

__device__ __forceinline__ float squares_of(const Vector& x) {
  float values[kVector], sum = 0.0f;
  widen(x, values);
#pragma unroll
  for (int i = 0; i < kVector; ++i) sum = fmaf(values[i], values[i], sum);
  return sum;
}
__device__ __forceinline__ void finish(const Row& row, Element* y, int v, const Vector& x, const Vector& w,
                                       float factor) {
  float values[kVector], weights[kVector];
  widen(x, values);
  widen(w, weights);
#pragma unroll
  for (int i = 0; i < kVector; ++i) values[i] *= factor * weights[i];
  row.store(y, v, values);
}

enum : int { kAhead = PREFETCH && PERSIST > 0, kEarly = ALIGNED && WEIGHTS == WEIGHTS_early && PER <= 4 };

}  // namespace

extern "C" __global__ void __launch_bounds__(BLOCK > WIDE ? BLOCK : WIDE)
    rmsnorm(const Element* x, const Element* w, Element* y, int R, int C, int vectors, int groups, int blocks,
            float eps) {
  __shared__ float slots[2 * Team::kSlots];
  Team team(slots, blocks);
  const int first = blockIdx.x % blocks * blockDim.x + threadIdx.x, stride = blockDim.x * blocks;
  const int step = gridDim.x / blocks;
  const auto read = [&](const Element* tensor, Vector(&to)[PER], int group) {
    const int index = group * blockDim.y + threadIdx.y;
    const Row row(index, C);
#pragma unroll
    for (int i = 0; i < PER; ++i) {
      to[i].whole = make_uint4(0, 0, 0, 0);
      if (index < R && first + i * stride < vectors) to[i] = row.load(tensor, first + i * stride, Element{});
    }
  };
  const auto read_shared = [&](const Element* tensor, Vector(&to)[kEarly ? PER : 1]) {
#pragma unroll
    for (int i = 0; i < (kEarly ? PER : 0); ++i)
      if (first + i * stride < vectors) to[i] = Row(0, C).load_shared(tensor, first + i * stride);
  };

  Vector now[PER], next[PER], weight[kEarly ? PER : 1];
  int group = blockIdx.x / blocks;
  if (kAhead) read(x, now, group);
  read_shared(w, weight);
  for (; group < groups; group += step) {
    if (!kAhead)
      read(x, now, group);
    else if (group + step < groups)
      read(x, next, group + step);
    const int index = group * blockDim.y + threadIdx.y;
    const Row row(index, C);
    const int end = index < R ? vectors : 0;

    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < PER; ++i) sum += squares_of(now[i]);
    for (int v = first + PER * stride; v < end; v += stride) sum += squares_of(row.load(x, v, Element{}));
    const float factor = rsqrtf(team.reduce(sum, 0.0f, Sum()) / C + eps);

#pragma unroll
    for (int i = 0; i < PER; ++i) {
      const int v = first + i * stride;
      if (v < end) finish(row, y, v, now[i], kEarly ? weight[kEarly ? i : 0] : row.load_shared(w, v), factor);
    }
    for (int v = first + PER * stride; v < end; v += stride)
      finish(row, y, v, row.load(x, v, Element{}), row.load_shared(w, v), factor);
    if (kAhead) {
#pragma unroll
      for (int i = 0; i < PER; ++i) now[i] = next[i];
    }
  }
  team.end();
}
