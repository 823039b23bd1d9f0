/*--- cultivar
name: layernorm_row_in_registers
task: layernorm
target: cuda
about: "A row in the registers of a part of a warp, a block or a cluster; vectors of 16 bytes; the variance is of deviations from the mean."
tunables:
  VECTORS: {values: [1, 2, 4, 8], default: 8}     # 16-byte vectors of a row in the registers of a thread
  BLOCK: {values: [128, 256, 512], default: 512}  # threads of a block, which has several rows if they are narrow
  WIDE: {values: [256, 512], default: 256}        # threads of a block for rows that need more: up to 8 blocks, a cluster
  SPREAD: {values: [0, 1], default: 1}            # few rows: a cluster for each, so that all multiprocessors work
  PERSIST: {values: [0, 1, 2, 4, 8], default: 0}  # blocks of a multiprocessor, which take row after row; 0: a block a row
  PREFETCH: {values: [0, 1], default: 0}          # the next row is read before this one is finished
  LOADS: {values: [plain, streaming], default: streaming}
  STORES: {values: [plain, streaming], default: plain}
  WEIGHTS: {values: [early, late], default: late}  # read before the reduction (at most 4 vectors), or behind it
  TILE: {values: [1, 2, 4], default: 4}           # many rows: rows of a thread
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
  ROWS: "tiled && R > 512 ? max(1, TILE * 2 / max(2, held)) : 1"
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

// The sum over the threads of a row, for each row of the tile.
__device__ __forceinline__ void total(float (&values)[ROWS], float (*slots)[ROWS]) {
#pragma unroll
  for (int distance = (LANES < 32 ? LANES : 32) / 2; distance > 0; distance /= 2) {
#pragma unroll
    for (int r = 0; r < ROWS; ++r) values[r] += __shfl_xor_sync(0xffffffffu, values[r], distance);
  }
  if (LANES > 32) {
    if (threadIdx.x % 32 == 0) {
#pragma unroll
      for (int r = 0; r < ROWS; ++r) slots[threadIdx.x / 32][r] = values[r];
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < ROWS; ++r) values[r] = 0.0f;
#pragma unroll
    for (int i = 0; i < kWarps; ++i) {
#pragma unroll
      for (int r = 0; r < ROWS; ++r) values[r] += slots[i][r];
    }
  }
}

}  // namespace

// A tile: ROWS rows of each team of LANES threads, PER vectors of each row in a thread.
extern "C" __global__ void __launch_bounds__(kThreads, 1024 / kThreads)
    layernorm(const Element* x, const Element* w, const Element* b, Element* y, int R, int C, int vectors,
              int groups, int blocks, float eps) {
  __shared__ __align__(16) float slots[2][kThreads / 32][ROWS];
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
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    mean[r] = 0.0f;
#pragma unroll
    for (int i = 0; i < PER; ++i) mean[r] += sum_of(now[r][i]);
  }
  total(mean, slots[0]);
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    mean[r] = mean[r] / C;
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
  total(factor, slots[1]);
#pragma unroll
  for (int r = 0; r < ROWS; ++r) factor[r] = rsqrtf(factor[r] / C + eps);

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
//// file: rows.cuh ////
// A row of a matrix as 16-byte vectors, wherever it begins. ALIGNED is specialized: every row begins at a multiple of 16 bytes.
#pragma once

#include "vectors.cuh"

namespace {

// A row begins `shift` elements behind a multiple of 16 bytes; its vector v has the columns v * kVector - shift and
// following. The first and the last vector reach into other rows and are then read and written by elements.
struct Row {
  long long first;  // element of the tensor
  int shift, C;

  __device__ __forceinline__ Row(long long row, int columns) : first(row * columns), C(columns) {
    shift = ALIGNED ? 0 : static_cast<int>(first % kVector);
  }
  __device__ __forceinline__ int column(int v) const { return v * kVector - shift; }
  __device__ __forceinline__ bool whole(int v) const {
    return ALIGNED || (column(v) >= 0 && column(v) + kVector <= C);
  }
  __device__ __forceinline__ Vector load(const Element* tensor, int v, Element outside) const {
    Vector x;
    if (whole(v)) {
      x.whole = load_whole(tensor + first + column(v));
    } else {
#pragma unroll
      for (int i = 0; i < kVector; ++i) {
        const int c = column(v) + i;
        x.part[i] = c >= 0 && c < C ? tensor[first + c] : outside;
      }
    }
    return x;
  }
  __device__ __forceinline__ void store(Element* tensor, int v, const float (&values)[kVector]) const {
    const Vector x = narrow(values);
    if (whole(v)) {
      store_whole(tensor + first + column(v), x.whole);
    } else {
#pragma unroll
      for (int i = 0; i < kVector; ++i) {
        const int c = column(v) + i;
        if (c >= 0 && c < C) tensor[first + c] = x.part[i];
      }
    }
  }
  // Of a tensor with one row only, which lies differently.
  __device__ __forceinline__ Vector load_shared(const Element* tensor, int v) const {
    Vector x;
    if (ALIGNED) {
      x.whole = *reinterpret_cast<const uint4*>(tensor + column(v));
    } else {
#pragma unroll
      for (int i = 0; i < kVector; ++i) {
        const int c = column(v) + i;
        x.part[i] = c >= 0 && c < C ? tensor[c] : Element{};
      }
    }
    return x;
  }
};

}  // namespace
//// file: vectors.cuh ////
// 16 bytes of a tensor at a time: an Element is what a tensor of the specialized dtype (f32, f16 or bf16) holds, a Vector is kVector
// of them, and widen and narrow convert these from and to floats. Reads and writes go as the tunables LOADS and STORES
// (plain or streaming) say.
#pragma once

namespace {

// Enums, because NVRTC would make writable device globals of constants.
#if defined(DTYPE_F32)
using Element = float;
enum : int { kVector = 4 };  // elements of 16 bytes
#else
using Element = unsigned short;
enum : int { kVector = 8 };
#endif

union Vector {
  uint4 whole;
  unsigned words[4];
  Element part[kVector];
};

#if defined(DTYPE_F32)
__device__ __forceinline__ void widen(const Vector& from, float (&to)[kVector]) {
#pragma unroll
  for (int i = 0; i < kVector; ++i) to[i] = from.part[i];
}
__device__ __forceinline__ Vector narrow(const float (&from)[kVector]) {
  Vector to;
#pragma unroll
  for (int i = 0; i < kVector; ++i) to.part[i] = from[i];
  return to;
}
#elif defined(DTYPE_F16)
__device__ __forceinline__ void widen(const Vector& from, float (&to)[kVector]) {
#pragma unroll
  for (int i = 0; i < 4; ++i)
    asm("{ .reg .b16 low, high; mov.b32 {low, high}, %2; cvt.f32.f16 %0, low; cvt.f32.f16 %1, high; }"
        : "=f"(to[2 * i]), "=f"(to[2 * i + 1])
        : "r"(from.words[i]));
}
__device__ __forceinline__ Vector narrow(const float (&from)[kVector]) {
  Vector to;
#pragma unroll
  for (int i = 0; i < 4; ++i)
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(to.words[i]) : "f"(from[2 * i + 1]), "f"(from[2 * i]));
  return to;
}
#else
__device__ __forceinline__ void widen(const Vector& from, float (&to)[kVector]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    to[2 * i] = __uint_as_float(from.words[i] << 16);
    to[2 * i + 1] = __uint_as_float(from.words[i] & 0xffff0000u);
  }
}
__device__ __forceinline__ Vector narrow(const float (&from)[kVector]) {
  Vector to;
#pragma unroll
  for (int i = 0; i < 4; ++i)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(to.words[i]) : "f"(from[2 * i + 1]), "f"(from[2 * i]));
  return to;
}
#endif

__device__ __forceinline__ uint4 load_whole(const Element* from) {
  const uint4* const address = reinterpret_cast<const uint4*>(from);
  return LOADS == LOADS_streaming ? __ldcs(address) : *address;
}
__device__ __forceinline__ void store_whole(Element* to, uint4 value) {
  uint4* const address = reinterpret_cast<uint4*>(to);
  if (STORES == STORES_streaming)
    __stcs(address, value);
  else
    *address = value;
}

}  // namespace
//// file: teams.cuh ////
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
