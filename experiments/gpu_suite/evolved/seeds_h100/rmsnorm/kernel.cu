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
  PARTS: {values: [1, 2, 4, 8], default: 4}       # few rows: blocks that write a part of a row; each sums the complete row
  LARGE: {values: [0, 256, 512], default: 256}    # many wide rows: threads of a block, weights in shared memory; 0: in registers
specialize: [dtype, PER, ALIGNED, HOLD, MANY]
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
  hold: "vectors <= 512 ? 1 : (vectors <= 1024 ? 2 : 4)"  # few rows: vectors of a thread, so that 512 threads suffice
  few: "ALIGNED && vectors > 32 && vectors <= 2048 && R <= 64 ? 1 : 0"
  lanes1: "round_up(vectors, 32)"               # of a row, with 1, 2 or 4 vectors each
  lanes2: "round_up(ceil_div(vectors, 2), 32)"
  lanes4: "round_up(ceil_div(vectors, 4), 32)"
  middle: "ALIGNED && vectors > 32 && vectors <= 2048 && R > 64 ? 1 : 0"  # one wave, if 132 * 1536 threads hold all rows
  bulk: "R * lanes4 > 202752 ? 1 : 0"  # more than one wave
  many: "middle ? (vectors <= 512 && R * lanes1 <= 202752 ? 1 : (vectors <= 1024 && R * lanes2 <= 202752 ? 2 : (bulk == 0 || (LARGE > 0 && vectors > 256) ? 4 : 0))) : 0"
  MANY: "many > 0 ? 1 : 0"
  HOLD: "few ? hold : many"
  many_lanes: "many == 1 ? lanes1 : (many == 2 ? lanes2 : lanes4)"
  stacked: "bulk > 0 ? max(1, min(15, floor(LARGE / many_lanes))) : max(1, min(15, min(floor(768 / many_lanes), ceil_div(R, 2 * num_sms))))"  # rows of a block
  threads: "round_up(ceil_div(vectors, hold), 32)"
  parts: "max(1, min(PARTS, floor(num_sms / R)))"
  chunk: "HOLD > 0 ? ceil_div(vectors, parts) : groups"
launch:
  - kernel: rmsnorm
    grid: ["MANY > 0 ? ceil_div(R, stacked) : (HOLD > 0 ? R : each * blocks)", "HOLD > 0 && MANY == 0 ? parts : 1", 1]
    block: ["MANY > 0 ? many_lanes : (HOLD > 0 ? threads : lanes)", "MANY > 0 ? stacked : (HOLD > 0 ? 1 : together)", 1]
    cluster: ["HOLD > 0 ? 1 : blocks", 1, 1]
    shared: "MANY > 0 ? vectors * 16 : 0"
    args: [x, w, y, R, C, vectors, chunk, blocks, eps]
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

#if MANY > 0

// Straight on, blockDim.y rows in a block, HOLD vectors a thread, weights in shared memory: 40 registers, so that two blocks of
// 768 threads fit, or 6 of 256. Middle shapes have all their rows at once, large ones take several waves.
extern "C" __global__ void __launch_bounds__(768, 2)
    rmsnorm(const Element* x, const Element* w, Element* y, int R, int C, int vectors, int chunk, int blocks,
            float eps) {
  extern __shared__ __align__(16) uint4 weights[];  // `vectors` of them
  __shared__ float slots[32];
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, stride = static_cast<int>(blockDim.x);
  const int warps = stride / 32, level = static_cast<int>(threadIdx.y);
  const int row = static_cast<int>(blockIdx.x) * static_cast<int>(blockDim.y) + level;
  const int mine = row < R ? vectors : 0;
  const int begin = row * C;
  if (level == 0) {
#pragma unroll
    for (int i = 0; i < HOLD; ++i) {
      const int v = thread + i * stride;
      if (v < vectors)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                         static_cast<unsigned>(__cvta_generic_to_shared(weights + v))),
                     "l"(w + v * kVector)
                     : "memory");
    }
  }
  Vector now[HOLD];
#pragma unroll
  for (int i = 0; i < HOLD; ++i) {
    const int v = thread + i * stride;
    now[i].whole = make_uint4(0, 0, 0, 0);
    if (v < mine) now[i].whole = load_whole(x + begin + v * kVector);
  }
  // The weights, which were asked for first, are there for all rows; nothing waits for x here. The thread of a block's only
  // row uses the weights that it has copied itself.
  asm volatile("cp.async.wait_all;" ::: "memory");
  if (blockDim.y > 1) __syncthreads();

  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < HOLD; ++i) sum += squares_of(now[i]);
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
  if (lane == 0) slots[level * warps + thread / 32] = sum;
  asm volatile("bar.sync %0, %1;" ::"r"(level + 1), "r"(stride) : "memory");  // of this row only
  sum = lane < warps ? slots[level * warps + lane] : 0.0f;  // at most 16 warps
#pragma unroll
  for (int distance = 8; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
  sum = __shfl_sync(0xffffffffu, sum, 0);
  const float factor = rsqrtf(sum / C + eps);
#pragma unroll
  for (int i = 0; i < HOLD; ++i) {
    const int v = thread + i * stride;
    if (v < mine) {
      Vector weight;
      weight.whole = weights[v];
      float values[kVector], factors[kVector];
      widen(now[i], values);
      widen(weight, factors);
#pragma unroll
      for (int j = 0; j < kVector; ++j) values[j] *= factor * factors[j];
      store_whole(y + begin + v * kVector, narrow(values).whole);
    }
  }
}

#elif HOLD > 0

// Few rows: block (row, part) sums the complete row, HOLD vectors a thread, and writes the vectors from part * chunk on.
extern "C" __global__ void __launch_bounds__(512)
    rmsnorm(const Element* x, const Element* w, Element* y, int R, int C, int vectors, int chunk, int blocks,
            float eps) {
  __shared__ float slots[16];
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, stride = static_cast<int>(blockDim.x);
  const int begin = static_cast<int>(blockIdx.x) * C, part = static_cast<int>(blockIdx.y) * chunk;
  Vector now[HOLD], weight[HOLD];
#pragma unroll
  for (int i = 0; i < HOLD; ++i) {
    const int v = thread + i * stride;
    now[i].whole = make_uint4(0, 0, 0, 0);
    if (v < vectors) now[i].whole = load_whole(x + begin + v * kVector);
  }
#pragma unroll
  for (int i = 0; i < HOLD; ++i) {
    const int v = thread + i * stride;
    weight[i].whole = make_uint4(0, 0, 0, 0);
    if (v < vectors && v >= part && v < part + chunk)
      weight[i].whole = *reinterpret_cast<const uint4*>(w + v * kVector);
  }
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < HOLD; ++i) sum += squares_of(now[i]);
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
  if (lane == 0) slots[thread / 32] = sum;
  __syncthreads();
  sum = lane < stride / 32 ? slots[lane] : 0.0f;  // at most 16 warps
#pragma unroll
  for (int distance = 8; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
  sum = __shfl_sync(0xffffffffu, sum, 0);
  const float factor = rsqrtf(sum / C + eps);
#pragma unroll
  for (int i = 0; i < HOLD; ++i) {
    const int v = thread + i * stride;
    if (v < vectors && v >= part && v < part + chunk) {
      float values[kVector], weights[kVector];
      widen(now[i], values);
      widen(weight[i], weights);
#pragma unroll
      for (int j = 0; j < kVector; ++j) values[j] *= factor * weights[j];
      store_whole(y + begin + v * kVector, narrow(values).whole);
    }
  }
}

#else

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

#endif
