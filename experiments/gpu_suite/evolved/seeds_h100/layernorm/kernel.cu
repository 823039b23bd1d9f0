/*--- cultivar
name: layernorm_row_in_registers
task: layernorm
target: cuda
requires: "dtype == bf16"
about: "A row in the registers of a part of a warp, a block or a cluster; vectors of 16 bytes; the variance is of deviations from the mean."
tunables:
  VECTORS: {values: [1, 2, 4, 8], default: 1}     # 16-byte vectors of a row in the registers of a thread
  BLOCK: {values: [128, 256, 512], default: 256}  # threads of a block, which has several rows if they are narrow
  WIDE: {values: [256, 512], default: 512}        # threads of a block for rows that need more: up to 8 blocks, a cluster
  SPREAD: {values: [0, 1], default: 0}            # few rows: a cluster for each, so that all multiprocessors work
  PERSIST: {values: [0, 1, 2, 4, 8], default: 4}  # blocks of a multiprocessor, which take row after row; 0: a block a row
  PREFETCH: {values: [0, 1], default: 0}          # the next row is read before this one is finished
  LOADS: {values: [plain, streaming], default: plain}
  STORES: {values: [plain, streaming], default: plain}
  WEIGHTS: {values: [early, late], default: early}  # read before the reduction (at most 4 vectors), or behind it
  TILE: {values: [1, 2, 4], default: 2}           # many rows: rows of a thread
specialize: [dtype, PER, ALIGNED, LANES, ROWS]
headers: [rows.cuh, vectors.cuh, teams.cuh]
let:
  elements: "16 / element_bytes"  # of a vector
  ALIGNED: "C % elements == 0"    # every row begins at a multiple of 16 bytes
  vectors: "ceil_div(ALIGNED ? C : C + elements - 1, elements)"
  tiled: "ALIGNED && vectors <= 2048"
  few: "vectors <= 512 ? 1 : (vectors <= 1024 ? 2 : 4)"
  many: "vectors <= 1024 ? 2 : 4"
  held: "vectors <= 32 ? 1 : (R <= 512 ? few : many)"  # vectors of a row in a thread of a tile
  wide_lanes: "round_up(ceil_div(vectors, held), 32)"
  narrow_lanes: "2 ^ ceil(log2(vectors))"
  LANES: "tiled ? (vectors <= 32 ? narrow_lanes : wide_lanes) : 0"  # threads of a row of a tile; at most 512
  tile: "R <= 4096 && vectors > 32 && vectors <= 512 ? 4 : TILE"  # so few rows of middle width are all resident at once
  ROWS: "tiled && R > 512 ? max(1, tile * 2 / max(2, held)) : 1"
  at_once: "LANES > 32 ? 1 : BLOCK / max(1, LANES)"
  usual: "vectors <= 32 ? 1 : (ceil_div(vectors, VECTORS) > 8 * WIDE ? 8 : VECTORS)"  # what is left is read again
  PER: "tiled ? held : usual"  # of a thread
  need: "PER == 1 && vectors <= 32 ? 2 ^ ceil(log2(vectors)) : round_up(ceil_div(vectors, PER), 32)"
  fitting: "need > WIDE ? min(8, 2 ^ ceil(log2(need / WIDE))) : 1"
  idle: "SPREAD && R * 2 <= num_sms ? min(8, 2 ^ floor(log2(num_sms / R))) : 1"
  blocks: "max(fitting, min(idle, 2 ^ floor(log2(max(1, vectors / 256)))))"  # of a row
  lanes: "blocks > 1 ? min(WIDE, round_up(ceil_div(vectors, blocks), 32)) : need"
  together: "blocks > 1 ? 1 : max(1, min(floor(BLOCK / lanes), round_up(max(1, floor(R / num_sms)), ceil_div(32, lanes))))"
  groups: "ceil_div(R, together)"
  each: "PERSIST > 0 ? min(groups, max(1, floor(num_sms * PERSIST / blocks))) : groups"
launch:
  - kernel: layernorm
    grid: ["tiled ? ceil_div(R, ROWS * at_once) : each * blocks", 1, 1]
    block: ["tiled ? LANES * at_once : lanes", "tiled ? 1 : together", 1]
    cluster: ["tiled ? 1 : blocks", 1, 1]
    args: [x, w, b, y, R, C, vectors, groups, blocks, eps]
---*/

// A row is read once, by 16 bytes, and stays in registers, PER vectors of a thread. Vectors beyond these (of the widest rows
// only) are read again for each pass. `together` narrow rows share a block; a wide row has a cluster of blocks.

#include "rows.cuh"
#include "teams.cuh"

namespace {

__device__ __forceinline__ float sum_of(const Vector& x) {
  float values[kVector], sum = 0.0f;
  widen(x, values);
#pragma unroll
  for (int i = 0; i < kVector; ++i) sum += values[i];
  return sum;
}
// Of the deviations from the mean; those of columns outside of the row do not count.
__device__ __forceinline__ float squares_of(const Row& row, int v, const Vector& x, float mean) {
  float values[kVector], sum = 0.0f;
  widen(x, values);
#pragma unroll
  for (int i = 0; i < kVector; ++i) {
    const int c = row.column(v) + i;
    const float deviation = ALIGNED || (c >= 0 && c < row.C) ? values[i] - mean : 0.0f;
    sum = fmaf(deviation, deviation, sum);
  }
  return sum;
}
__device__ __forceinline__ void finish(const Row& row, Element* y, int v, const Vector& x, const Vector& w,
                                       const Vector& b, float mean, float factor) {
  float values[kVector], weights[kVector], biases[kVector];
  widen(x, values);
  widen(w, weights);
  widen(b, biases);
#pragma unroll
  for (int i = 0; i < kVector; ++i) values[i] = fmaf((values[i] - mean) * factor, weights[i], biases[i]);
  row.store(y, v, values);
}

enum : int { kAhead = PREFETCH && PERSIST > 0, kEarly = ALIGNED && WEIGHTS == WEIGHTS_early && PER <= 4 };

}  // namespace

#if LANES > 0

namespace {

enum : int {
  kThreads = LANES > 32 ? LANES : BLOCK,
  kTeams = kThreads / LANES,
  kWarps = LANES > 32 ? LANES / 32 : 1,  // of a row
  kFirst = ROWS == 1 || WEIGHTS == WEIGHTS_early
};

// The sum over the threads of a row within a warp, for each row of the tile.
__device__ __forceinline__ void total(float (&values)[ROWS]) {
#pragma unroll
  for (int distance = (LANES < 32 ? LANES : 32) / 2; distance > 0; distance /= 2) {
#pragma unroll
    for (int r = 0; r < ROWS; ++r) values[r] += __shfl_xor_sync(0xffffffffu, values[r], distance);
  }
}
// Two sums over the warps of a row, for each row of the tile.
__device__ __forceinline__ void total_of_both(float (&sums)[ROWS], float (&squares)[ROWS], float2 (*slots)[ROWS]) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      sums[r] += __shfl_xor_sync(0xffffffffu, sums[r], distance);
      squares[r] += __shfl_xor_sync(0xffffffffu, squares[r], distance);
    }
  }
  if (threadIdx.x % 32 == 0) {
#pragma unroll
    for (int r = 0; r < ROWS; ++r) slots[threadIdx.x / 32][r] = make_float2(sums[r], squares[r]);
  }
  __syncthreads();
#pragma unroll
  for (int r = 0; r < ROWS; ++r) sums[r] = squares[r] = 0.0f;
#pragma unroll
  for (int i = 0; i < kWarps; ++i) {
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      const float2 both = slots[i][r];
      sums[r] += both.x;
      squares[r] += both.y;
    }
  }
}

}  // namespace

// A tile: ROWS rows of each team of LANES threads, PER vectors of each row in a thread.
extern "C" __global__ void __launch_bounds__(kThreads, 1024 / kThreads)
    layernorm(const Element* x, const Element* w, const Element* b, Element* y, int R, int C, int vectors,
              int groups, int blocks, float eps) {
  __shared__ __align__(16) float2 slots[kThreads / 32][ROWS];
  const int thread = static_cast<int>(threadIdx.x);
  const int team = kTeams > 1 ? thread / LANES : 0, part = kTeams > 1 ? thread % LANES : thread;
  const int begin = static_cast<int>(blockIdx.x) * (kTeams * ROWS) + team;

  Vector now[ROWS][PER], weight[PER], bias[PER];
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    const int index = begin + r * kTeams;
#pragma unroll
    for (int i = 0; i < PER; ++i) {
      const int v = part + i * LANES;
      now[r][i].whole = make_uint4(0, 0, 0, 0);
      if (index < R && v < vectors) now[r][i].whole = load_whole(x + index * C + v * kVector);
    }
  }
  if (kFirst) {
#pragma unroll
    for (int i = 0; i < PER; ++i) {
      const int v = part + i * LANES;
      if (v < vectors) {
        weight[i].whole = *reinterpret_cast<const uint4*>(w + v * kVector);
        bias[i].whole = *reinterpret_cast<const uint4*>(b + v * kVector);
      }
    }
  }

  float mean[ROWS], factor[ROWS];
  if constexpr (LANES > 32) {
    float shift[ROWS], sums[ROWS], squares[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {  // the first element of each row, which the reads above bring as well
      Vector start;
      float values[kVector];
      start.whole = make_uint4(0, 0, 0, 0);
      if (begin + r * kTeams < R) start.part[0] = x[(begin + r * kTeams) * C];
      widen(start, values);
      shift[r] = values[0];
    }
    const float share = 1.0f / C;
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      sums[r] = squares[r] = 0.0f;
#pragma unroll
      for (int i = 0; i < PER; ++i) {
        float values[kVector];
        widen(now[r][i], values);
        if (part + i * LANES < vectors) {
#pragma unroll
          for (int j = 0; j < kVector; ++j) {
            const float deviation = values[j] - shift[r];
            sums[r] += deviation;
            squares[r] = fmaf(deviation, deviation, squares[r]);
          }
        }
      }
    }
    total_of_both(sums, squares, slots);
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      const float moved = sums[r] * share;
      mean[r] = shift[r] + moved;
      factor[r] = rsqrtf(fmaxf(fmaf(-moved, moved, squares[r] * share), 0.0f) + eps);
    }
  } else {
    const float share = 1.0f / C;
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      mean[r] = 0.0f;
#pragma unroll
      for (int i = 0; i < PER; ++i) mean[r] += sum_of(now[r][i]);
    }
    total(mean);
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      mean[r] = mean[r] / C;  // a reciprocal would leave a deviation where all are equal
      factor[r] = 0.0f;
#pragma unroll
      for (int i = 0; i < PER; ++i) {
        float values[kVector];
        widen(now[r][i], values);
        if (part + i * LANES < vectors) {
#pragma unroll
          for (int j = 0; j < kVector; ++j) {
            const float deviation = values[j] - mean[r];
            factor[r] = fmaf(deviation, deviation, factor[r]);
          }
        }
      }
    }
    total(factor);
#pragma unroll
    for (int r = 0; r < ROWS; ++r) factor[r] = rsqrtf(fmaf(factor[r], share, eps));
  }

#pragma unroll
  for (int i = 0; i < PER; ++i) {
    const int v = part + i * LANES;
    if (v < vectors) {
      if (!kFirst) {
        weight[i].whole = *reinterpret_cast<const uint4*>(w + v * kVector);
        bias[i].whole = *reinterpret_cast<const uint4*>(b + v * kVector);
      }
      float weights[kVector], biases[kVector];
      widen(weight[i], weights);
      widen(bias[i], biases);
#pragma unroll
      for (int r = 0; r < ROWS; ++r) {
        const int index = begin + r * kTeams;
        if (index < R) {
          float values[kVector];
          widen(now[r][i], values);
#pragma unroll
          for (int j = 0; j < kVector; ++j) values[j] = fmaf((values[j] - mean[r]) * factor[r], weights[j], biases[j]);
          store_whole(y + index * C + v * kVector, narrow(values).whole);
        }
      }
    }
  }
}

#else

extern "C" __global__ void __launch_bounds__(BLOCK > WIDE ? BLOCK : WIDE)
    layernorm(const Element* x, const Element* w, const Element* b, Element* y, int R, int C, int vectors,
              int groups, int blocks, float eps) {
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

  Vector now[PER], next[PER], weight[kEarly ? PER : 1], bias[kEarly ? PER : 1];
  int group = blockIdx.x / blocks;
  if (kAhead) read(x, now, group);
  read_shared(w, weight);
  read_shared(b, bias);
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
    for (int i = 0; i < PER; ++i) sum += sum_of(now[i]);
    for (int v = first + PER * stride; v < end; v += stride) sum += sum_of(row.load(x, v, Element{}));
    const float mean = team.reduce(sum, 0.0f, Sum()) / C;

    float squares = 0.0f;
#pragma unroll
    for (int i = 0; i < PER; ++i)
      if (first + i * stride < end) squares += squares_of(row, first + i * stride, now[i], mean);
    for (int v = first + PER * stride; v < end; v += stride)
      squares += squares_of(row, v, row.load(x, v, Element{}), mean);
    const float factor = rsqrtf(team.reduce(squares, 0.0f, Sum()) / C + eps);

#pragma unroll
    for (int i = 0; i < PER; ++i) {
      const int v = first + i * stride;
      if (v < end)
        finish(row, y, v, now[i], kEarly ? weight[kEarly ? i : 0] : row.load_shared(w, v),
               kEarly ? bias[kEarly ? i : 0] : row.load_shared(b, v), mean, factor);
    }
    for (int v = first + PER * stride; v < end; v += stride)
      finish(row, y, v, row.load(x, v, Element{}), row.load_shared(w, v), row.load_shared(b, v), mean,
             factor);
    if (kAhead) {
#pragma unroll
      for (int i = 0; i < PER; ++i) now[i] = next[i];
    }
  }
  team.end();
}

#endif
