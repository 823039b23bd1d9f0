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
specialize: [dtype, PER, ALIGNED, HOLD]
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
  HOLD: "ALIGNED && vectors > 32 && vectors <= 2048 && R <= 64 ? hold : 0"
  threads: "round_up(ceil_div(vectors, hold), 32)"
  parts: "max(1, min(PARTS, floor(num_sms / R)))"
  chunk: "HOLD > 0 ? ceil_div(vectors, parts) : groups"
launch:
  - kernel: rmsnorm
    grid: ["HOLD > 0 ? R : each * blocks", "HOLD > 0 ? parts : 1", 1]
    block: ["HOLD > 0 ? threads : lanes", "HOLD > 0 ? 1 : together", 1]
    cluster: ["HOLD > 0 ? 1 : blocks", 1, 1]
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

#if HOLD > 0

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
