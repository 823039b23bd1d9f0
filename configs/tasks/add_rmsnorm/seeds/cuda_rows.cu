/*--- cultivar
name: add_rmsnorm_row_in_registers
task: add_rmsnorm
target: cuda
about: "Both inputs of a row in registers; vectors of 16 bytes; the norm is of the sum before its rounding; one read and one write of each tensor."
tunables:
  VECTORS: {values: [1, 2, 4, 8], default: 2}     # 16-byte vectors of a row in the registers of a thread
  BLOCK: {values: [128, 256, 512], default: 256}  # threads of a block, which has several rows if they are narrow
  WIDE: {values: [256, 512], default: 512}        # threads of a block for rows that need more: up to 8 blocks, a cluster
  SPREAD: {values: [0, 1], default: 1}            # few rows: a cluster for each, so that all multiprocessors work
  PERSIST: {values: [0, 1, 2, 4, 8], default: 0}  # blocks of a multiprocessor, which take row after row; 0: a block a row
  PREFETCH: {values: [0, 1], default: 0}          # the next row is read before this one is finished
  LOADS: {values: [plain, streaming], default: streaming}
  STORES: {values: [plain, streaming], default: streaming}
  WEIGHTS: {values: [early, late], default: early}  # read before the reduction (at most 4 vectors), or behind it
specialize: [dtype, PER, ALIGNED]
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
  - kernel: add_rmsnorm
    grid: ["each * blocks", 1, 1]
    block: [lanes, together, 1]
    cluster: [blocks, 1, 1]
    args: [x, r, w, y, s, R, C, vectors, groups, blocks, eps]
---*/

// A row is read once, by 16 bytes, and stays in registers, PER vectors of a thread. Vectors beyond these (of the widest rows
// only) are read again for each pass. `together` narrow rows share a block; a wide row has a cluster of blocks.

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

// --- A row as 16-byte vectors ---

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

// --- Reductions over a row ---

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

__device__ __forceinline__ void add(const Vector& x, const Vector& r, float (&sums)[kVector]) {
  float others[kVector];
  widen(x, sums);
  widen(r, others);
#pragma unroll
  for (int i = 0; i < kVector; ++i) sums[i] += others[i];
}
__device__ __forceinline__ float squares_of(const float (&values)[kVector]) {
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < kVector; ++i) sum = fmaf(values[i], values[i], sum);
  return sum;
}
__device__ __forceinline__ void finish(const Row& row, Element* y, int v, const float (&sums)[kVector],
                                       const Vector& w, float factor) {
  float values[kVector], weights[kVector];
  widen(w, weights);
#pragma unroll
  for (int i = 0; i < kVector; ++i) values[i] = sums[i] * (factor * weights[i]);
  row.store(y, v, values);
}

enum : int { kAhead = PREFETCH && PERSIST > 0, kEarly = ALIGNED && WEIGHTS == WEIGHTS_early && PER <= 4 };

}  // namespace

extern "C" __global__ void __launch_bounds__(BLOCK > WIDE ? BLOCK : WIDE)
    add_rmsnorm(const Element* x, const Element* r, const Element* w, Element* y, Element* s, int R, int C,
                int vectors, int groups, int blocks, float eps) {
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

  Vector now[PER], more[PER], next[PER], next_more[PER],
      weight[kEarly ? PER : 1];  // x, r; and those of the next row
  int group = blockIdx.x / blocks;
  if (kAhead) read(x, now, group), read(r, more, group);
  read_shared(w, weight);
  for (; group < groups; group += step) {
    if (!kAhead)
      read(x, now, group), read(r, more, group);
    else if (group + step < groups)
      read(x, next, group + step), read(r, next_more, group + step);
    const int index = group * blockDim.y + threadIdx.y;
    const Row row(index, C);
    const int end = index < R ? vectors : 0;

    float sums[PER][kVector];
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < PER; ++i) {
      add(now[i], more[i], sums[i]);
      sum += squares_of(sums[i]);
      if (first + i * stride < end) row.store(s, first + i * stride, sums[i]);
    }
    for (int v = first + PER * stride; v < end; v += stride) {
      float values[kVector];
      add(row.load(x, v, Element{}), row.load(r, v, Element{}), values);
      sum += squares_of(values);
      row.store(s, v, values);
    }
    const float factor = rsqrtf(team.reduce(sum, 0.0f, Sum()) / C + eps);

#pragma unroll
    for (int i = 0; i < PER; ++i) {
      const int v = first + i * stride;
      if (v < end)
        finish(row, y, v, sums[i], kEarly ? weight[kEarly ? i : 0] : row.load_shared(w, v), factor);
    }
    for (int v = first + PER * stride; v < end; v += stride) {
      float values[kVector];
      add(row.load(x, v, Element{}), row.load(r, v, Element{}), values);
      finish(row, y, v, values, row.load_shared(w, v), factor);
    }
    if (kAhead) {
#pragma unroll
      for (int i = 0; i < PER; ++i) now[i] = next[i], more[i] = next_more[i];
    }
  }
  team.end();
}
