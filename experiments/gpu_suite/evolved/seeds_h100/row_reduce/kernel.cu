/*--- cultivar
name: row_reduce_narrow_window
task: row_reduce
target: cuda
about: "Few bytes in flight (about 32 KiB a multiprocessor) in the order of memory, so that the stream pushes few dirty lines out of L2; several rows share a block, a cluster shares a long row, and parts of very long rows are added by a second kernel or behind a grid barrier."
tunables:
  BLOCK: {values: [128, 256, 512, 1024], default: 512}
  LOADS: {values: [1, 2, 4, 8], default: 2}              # vectors of 16 bytes of a thread in a row that needs no more than a block
  BATCH: {values: [1, 2, 4], default: 2}                 # of these, in flight at once
  CAP: {values: [512, 1024, 1536, 2048], default: 1536}  # threads of a multiprocessor
  CLUSTER: {values: [0, 1, 2, 4, 8], default: 8}         # blocks of a row of more than 64 KiB; 0: parts and a second kernel
  MID: {values: [1, 2, 4], default: 2}                   # BATCH of these rows
  LONG: {values: [parts, stream, grid], default: parts}  # few very long rows: a block a part; resident blocks, then a second kernel; or a grid barrier
  PART: {values: [16, 32, 64, 128], default: 16}         # KiB of a part
  WIDE: {values: [0, 8, 16], default: 0}                 # a cluster of so many blocks for such a row, where the rows then fill the card
  FAR: {values: [1, 2, 4], default: 1}                   # BATCH of these rows
  FAR_CAP: {values: [512, 1024, 1536, 2048], default: 2048}
  SMALL: {values: [1, 2, 3, 4], default: 2}              # LOADS and BATCH where there are few bytes
  POLICY: {values: [0, 1], default: 0}                   # 1: what is read is evicted from L2 first
constraints: ["BLOCK <= CAP", "BLOCK <= FAR_CAP", "LONG == LONG_parts || FAR * FAR_CAP <= 4096"]
specialize: [dtype, WAY, COLUMNS, LANES, GROUPS, RANKS, FLIGHT]
let:
  piece: "16 / element_bytes"
  pieces: "floor_div(C, piece)"                       # vectors of a row
  bytes: "R * C * element_bytes"
  small: "bytes <= 8388608"
  loads: "small ? SMALL : LOADS"
  wide: "pieces > 65536 && R * WIDE >= 112 && R * WIDE <= 1056"
  lengthy: "wide ? 0 : (pieces > 65536 || (pieces > 4096 && (CLUSTER == 0 || R < 256)))"
  streamed: "LONG != LONG_parts && lengthy && R <= 64 && bytes >= 16777216"
  WAY: "streamed ? 2 : (lengthy ? 1 : 0)"
  COLUMNS: "C"
  # Way 0: LANES threads of each of RANKS blocks sum a row, GROUPS rows a block
  RANKS: "wide ? WIDE : (WAY == 0 && pieces > 4096 ? CLUSTER : 1)"
  need: "max(1, ceil_div(pieces, loads))"             # threads
  narrow: "need > 16 ? 32 : (need > 8 ? 16 : (need > 4 ? 8 : (need > 2 ? 4 : need)))"
  LANES: "WAY == 0 && need <= BLOCK ? (need > 32 ? round_up(need, 32) : narrow) : BLOCK"
  room: "R * LANES >= 262144 ? BLOCK : 64"
  GROUPS: "WAY == 0 ? max(1, floor_div(room, LANES)) : 1"
  threads: "max(32, LANES * GROUPS)"
  FLIGHT: "WAY == 0 && small && need <= BLOCK ? SMALL : (wide ? FAR * max(1, floor_div(2048, BLOCK * max(1, floor_div(R * WIDE, 128)))) : (WAY > 0 ? FAR : (RANKS > 1 ? MID : BATCH)))"
  # Ways 1 and 2
  parts_of: "max(1, ceil_div(pieces, PART * 64))"
  each: "round_up(ceil_div(max(1, pieces), parts_of), 8)"
  resident: "num_sms * floor_div(FAR_CAP, BLOCK)"
  tiles: "max(1, ceil_div(pieces, BLOCK * FAR))"    # of a row
  count: "WAY == 2 ? resident : parts_of"             # sums of a row
  pitch: "round_up(count, 4)"
  team: "count > 128 ? 1024 : 32"
  cap: "WAY > 0 || wide ? FAR_CAP : CAP"
  held: "cap == 2048 || small ? 0 : floor_div(233472, max(1, floor_div(cap, threads)) + 1)"  # shared memory that leaves no room for more
workspace:
  parts: {bytes: "WAY == 0 ? 0 : 4 * R * pitch"}
launch:
  - kernel: row_reduce
    when: "WAY == 0"
    grid: ["ceil_div(R, GROUPS) * RANKS", 1, 1]
    block: [threads, 1, 1]
    cluster: [RANKS, 1, 1]
    shared: held
    args: [x, y, R]
  - kernel: reduce_parts
    when: "WAY == 1"
    grid: ["R * parts_of", 1, 1]
    block: [BLOCK, 1, 1]
    shared: held
    args: [x, parts, parts_of, each, pitch]
  - kernel: reduce_stream
    when: "WAY == 2 && LONG == LONG_stream"
    grid: [resident, 1, 1]
    block: [BLOCK, 1, 1]
    shared: held
    args: [x, parts, y, R, tiles, pitch]
  - kernel: reduce_stream
    when: "WAY == 2 && LONG == LONG_grid"
    cooperative: true
    grid: [resident, 1, 1]
    block: [BLOCK, 1, 1]
    shared: held
    args: [x, parts, y, R, tiles, pitch]
  - kernel: add_parts
    when: "WAY == 1 || (WAY == 2 && LONG == LONG_stream)"
    grid: ["ceil_div(R, 1024 / team)", 1, 1]
    block: [1024, 1, 1]
    args: [parts, y, R, count, pitch, team]
---*/

// Lines that are on their way take room in L2, which began full of dirty lines: what is in flight beyond the need of the latency
// costs as many bytes of write-backs. Therefore a thread waits for each batch of vectors before it asks for the next one.
// Rows that are no multiple of 16 bytes have up to 15 bytes before the first and behind the last vector.

#define GRID_BARRIER (WAY == 2 && LONG == LONG_grid)
#if GRID_BARRIER
#include <cooperative_groups.h>
#endif

namespace {

#if defined(DTYPE_F32)
using Element = float;
enum : int { kPiece = 4 };  // elements of 16 bytes
#else
using Element = unsigned short;
enum : int { kPiece = 8 };
#endif
enum : int {
  kAligned = COLUMNS % kPiece == 0,
  kPieces = COLUMNS / kPiece,
  kThreads = LANES * GROUPS < 32 ? 32 : LANES * GROUPS,
  kResident = FLIGHT > 4 ? 1 : (2048 / kThreads > 32 ? 32 : 2048 / kThreads),
  kRowWarps = (LANES + 31) / 32,
};

#if defined(DTYPE_F32)
__device__ __forceinline__ float value_of(Element e) { return e; }
__device__ __forceinline__ float sum_of(const uint4& v) {
  return (__uint_as_float(v.x) + __uint_as_float(v.y)) + (__uint_as_float(v.z) + __uint_as_float(v.w));
}
#else
#if defined(DTYPE_F16)
__device__ __forceinline__ float value_of(Element e) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(e));
  return f;
}
__device__ __forceinline__ float pair_of(unsigned w) {
  float a, b;
  asm("{ .reg .b16 low, high; mov.b32 {low, high}, %2; cvt.f32.f16 %0, low; cvt.f32.f16 %1, high; }"
      : "=f"(a), "=f"(b)
      : "r"(w));
  return a + b;
}
#else
__device__ __forceinline__ float value_of(Element e) { return __uint_as_float(static_cast<unsigned>(e) << 16); }
__device__ __forceinline__ float pair_of(unsigned w) {
  return __uint_as_float(w << 16) + __uint_as_float(w & 0xffff0000u);
}
#endif
__device__ __forceinline__ float sum_of(const uint4& v) {
  return (pair_of(v.x) + pair_of(v.y)) + (pair_of(v.z) + pair_of(v.w));
}
#endif

__device__ __forceinline__ unsigned long long stream_policy() {
  unsigned long long policy = 0;
#if POLICY
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
#endif
  return policy;
}

__device__ __forceinline__ uint4 load_once(const uint4* from, unsigned long long policy) {
  uint4 v;
#if POLICY
  asm("ld.global.nc.L1::no_allocate.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
      : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
      : "l"(from), "l"(policy));
#else
  asm("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
      : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
      : "l"(from));
#endif
  return v;
}

// A row as elements before its first vector, vectors, and elements behind them.
struct Row {
  const Element* in;
  int head, body;  // elements, vectors

  __device__ __forceinline__ Row(const Element* x, int row) {
    const long long first = static_cast<long long>(row) * COLUMNS;
    in = x + first;
    head = 0;
    body = COLUMNS / kPiece;
    if (!kAligned) {
      head = static_cast<int>(-first & (kPiece - 1));
      if (head > COLUMNS) head = COLUMNS;
      body = (COLUMNS - head) / kPiece;
    }
  }
  __device__ __forceinline__ const uint4* vectors() const { return reinterpret_cast<const uint4*>(in + head); }
  __device__ __forceinline__ float head_sum(int lane, int lanes) const {
    float sum = 0.0f;
    if (!kAligned)
      for (int c = lane; c < head; c += lanes) sum += value_of(in[c]);
    return sum;
  }
  __device__ __forceinline__ float tail_sum(int lane, int lanes) const {
    float sum = 0.0f;
    if (!kAligned)
      for (int c = head + body * kPiece + lane; c < COLUMNS; c += lanes) sum += value_of(in[c]);
    return sum;
  }
};

template <int WIDTH>
__device__ __forceinline__ float lanes_sum(float v) {
#pragma unroll
  for (int m = WIDTH / 2; m > 0; m /= 2) v += __shfl_xor_sync(0xffffffffu, v, m);
  return v;
}

// One thread adds the sums of WARPS warps, which begin at a multiple of 16 bytes if there are more than four.
template <int WARPS>
__device__ __forceinline__ float sum_slots(const float* slots) {
  float t[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  if constexpr (WARPS % 4 == 0) {
#pragma unroll
    for (int i = 0; i < WARPS; i += 4) {
      const float4 four = *reinterpret_cast<const float4*>(slots + i);
      t[0] += four.x;
      t[1] += four.y;
      t[2] += four.z;
      t[3] += four.w;
    }
  } else {
#pragma unroll
    for (int i = 0; i < WARPS; ++i) t[i % 4] += slots[i];
  }
  return (t[0] + t[1]) + (t[2] + t[3]);
}

// The vectors from + first, + first + step, ... below `count`, a batch of FLIGHT at a time.
__device__ __forceinline__ float strided_sum(const uint4* from, int first, int count, int step, unsigned long long policy) {
  float sums[FLIGHT];
#pragma unroll
  for (int a = 0; a < FLIGHT; ++a) sums[a] = 0.0f;
  int p = first;
#pragma unroll 1
  for (; p + (FLIGHT - 1) * step < count; p += FLIGHT * step) {
    uint4 v[FLIGHT];
#pragma unroll
    for (int a = 0; a < FLIGHT; ++a) v[a] = load_once(from + p + a * step, policy);
#pragma unroll
    for (int a = 0; a < FLIGHT; ++a) sums[a] += sum_of(v[a]);
  }
  if constexpr (FLIGHT > 1) {
    if (p < count) {
      uint4 v[FLIGHT];
#pragma unroll
      for (int a = 0; a + 1 < FLIGHT; ++a) {
        v[a] = make_uint4(0u, 0u, 0u, 0u);
        if (p + a * step < count) v[a] = load_once(from + p + a * step, policy);
      }
#pragma unroll
      for (int a = 0; a + 1 < FLIGHT; ++a) sums[a] += sum_of(v[a]);
    }
  }
  float sum = sums[0];
#pragma unroll
  for (int a = 1; a < FLIGHT; ++a) sum += sums[a];
  return sum;
}

#if WAY > 0
// 1,024 threads, or a warp (team 32), add the sums of a row. All threads of the block call it.
__device__ __forceinline__ void add_row(const float* parts, float* y, int row, int R, int count, int pitch, int team, int block) {
  __shared__ float partial[32];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int start = team == 32 ? lane : static_cast<int>(threadIdx.x);
  float sum = 0.0f;
  if (row < R) {
    const float4* const in = reinterpret_cast<const float4*>(parts + static_cast<long long>(row) * pitch);
#pragma unroll 2
    for (int s = start; 4 * s < count; s += team) {
      const float4 v = __ldcg(in + s);  // what lies behind the last sum is not added
      sum += v.x + (4 * s + 1 < count ? v.y : 0.0f);
      sum += (4 * s + 2 < count ? v.z : 0.0f) + (4 * s + 3 < count ? v.w : 0.0f);
    }
  }
  sum = lanes_sum<32>(sum);
  if (team == 32) {
    if (lane == 0 && row < R) y[row] = sum;
    return;
  }
  if (lane == 0) partial[warp] = sum;
  __syncthreads();
  if (warp != 0) return;
  sum = lanes_sum<32>(lane < block / 32 ? partial[lane] : 0.0f);
  if (lane == 0 && row < R) y[row] = sum;
}
#endif

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads, kResident) row_reduce(const Element* x, float* y, int R) {
#if WAY == 0
  const unsigned long long policy = stream_policy();
  const int group = GROUPS == 1 ? 0 : static_cast<int>(threadIdx.x) / LANES;
  const int lane = static_cast<int>(threadIdx.x) - group * LANES;
  const int rank = RANKS == 1 ? 0 : static_cast<int>(blockIdx.x) % RANKS;
  const int row = static_cast<int>(blockIdx.x) / RANKS * GROUPS + group;
#if RANKS > 1
  __shared__ __align__(16) float slots[RANKS * kRowWarps];
  __shared__ __align__(8) unsigned long long full;
  const unsigned bar = static_cast<unsigned>(__cvta_generic_to_shared(&full));
  if (threadIdx.x == 0 && rank == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(4 * RANKS * kRowWarps) : "memory");
  }
  __syncwarp();
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#endif
  float sum = 0.0f;
  if ((GROUPS == 1 && LANES >= 32) || (group < GROUPS && row < R)) {
    const Row in(x, row);
    if constexpr (RANKS == 1 && kAligned != 0 && kPieces <= FLIGHT * LANES) {  // all at once
      uint4 v[FLIGHT];
#pragma unroll
      for (int a = 0; a < FLIGHT; ++a) {
        v[a] = make_uint4(0u, 0u, 0u, 0u);
        if ((a + 1) * LANES <= kPieces || a * LANES + lane < kPieces)
          v[a] = load_once(in.vectors() + a * LANES + lane, policy);
      }
#pragma unroll
      for (int a = 0; a < FLIGHT; ++a)
        if (a * LANES < kPieces) sum += sum_of(v[a]);
    } else {
      sum = strided_sum(in.vectors(), rank * LANES + lane, in.body, RANKS * LANES, policy);
    }
    if (rank == 0) sum += in.head_sum(lane, LANES);
    if (rank == RANKS - 1) sum += in.tail_sum(lane, LANES);
  }
  sum = lanes_sum<(LANES < 32 ? LANES : 32)>(sum);
#if RANKS > 1
  const int warp = threadIdx.x / 32;
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");  // the first block's barrier is initialized
  if (threadIdx.x % 32 == 0) {
    const unsigned slot = static_cast<unsigned>(__cvta_generic_to_shared(slots + rank * kRowWarps + warp));
    unsigned there, there_bar;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(slot), "r"(0));
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there_bar) : "r"(bar), "r"(0));
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];" ::"r"(there), "f"(sum),
                 "r"(there_bar)
                 : "memory");
  }
  if (rank != 0 || warp != 0) return;
  unsigned complete;
  do {
    asm volatile(
        "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}\n"
        : "=r"(complete)
        : "r"(bar), "r"(0u)
        : "memory");
  } while (complete == 0);
  __syncwarp();
  sum = 0.0f;
#pragma unroll
  for (int s = 0; s < RANKS * kRowWarps; s += 32)
    if (RANKS * kRowWarps % 32 == 0 || s + lane < RANKS * kRowWarps) sum += slots[s + lane];
  sum = lanes_sum<32>(sum);
  if (lane == 0) y[row] = sum;
#else
  if constexpr (kRowWarps > 1) {
    __shared__ __align__(16) float slots[GROUPS * kRowWarps];
    if (threadIdx.x % 32 == 0) slots[threadIdx.x / 32] = sum;
    __syncthreads();
    if (lane != 0) return;
    sum = sum_slots<kRowWarps>(slots + group * kRowWarps);
  }
  if (lane == 0 && group < GROUPS && row < R) y[row] = sum;
#endif
#endif
}

// Block b sums part b % count of row b / count.
extern "C" __global__ void __launch_bounds__(BLOCK, kResident)
    reduce_parts(const Element* x, float* parts, int count, int each, int pitch) {
#if WAY == 1
  __shared__ __align__(16) float slots[BLOCK / 32];
  const int row = static_cast<int>(blockIdx.x) / count;
  const int part = static_cast<int>(blockIdx.x) - row * count;
  const int lane = threadIdx.x;
  const Row in(x, row);
  const int first = min(part * each, in.body);
  float sum = strided_sum(in.vectors() + first, lane, min(each, in.body - first), BLOCK, stream_policy());
  if (part == 0) sum += in.head_sum(lane, BLOCK);
  if (part == count - 1) sum += in.tail_sum(lane, BLOCK);
  sum = lanes_sum<32>(sum);
  if (lane % 32 == 0) slots[lane / 32] = sum;
  __syncthreads();
  if (lane == 0) parts[static_cast<long long>(row) * pitch + part] = sum_slots<BLOCK / 32>(slots);
#endif
}

#if WAY == 2
namespace {

struct Place {
  int row, tile;
  __device__ __forceinline__ void settle(int tiles) {
    while (tile >= tiles) {
      tile -= tiles;
      ++row;
    }
  }
};

__device__ __forceinline__ void load_tile(uint4 (&v)[FLIGHT], const Element* x, const Place& at, unsigned long long policy) {
  const Row in(x, at.row);
  const int first = at.tile * (BLOCK * FLIGHT) + static_cast<int>(threadIdx.x);
#pragma unroll
  for (int a = 0; a < FLIGHT; ++a) {
    v[a] = make_uint4(0u, 0u, 0u, 0u);
    if (first + a * BLOCK < in.body) v[a] = load_once(in.vectors() + first + a * BLOCK, policy);
  }
}

}  // namespace
#endif

// Resident blocks take tile after tile, in the order of memory; a row's tiles follow those of the row before. Each block has
// one sum for each row, 0 where it has no tile of it.
extern "C" __global__ void __launch_bounds__(BLOCK, FAR_CAP / BLOCK)
    reduce_stream(const Element* x, float* parts, float* y, int R, int tiles, int pitch) {
#if WAY == 2
  __shared__ __align__(16) float slots[2][BLOCK / 32];
  const unsigned long long policy = stream_policy();
  const int thread = threadIdx.x;
  float* const mine = parts + blockIdx.x;
  Place at{0, static_cast<int>(blockIdx.x)};
  at.settle(tiles);
  int written = 0, flip = 0;  // rows
  uint4 now[FLIGHT];
  float sum = 0.0f;
  if (at.row < R) load_tile(now, x, at, policy);
#pragma unroll 1
  while (at.row < R) {
    Place next{at.row, at.tile + static_cast<int>(gridDim.x)};
    next.settle(tiles);
    uint4 later[FLIGHT];
#pragma unroll
    for (int a = 0; a < FLIGHT; ++a) later[a] = make_uint4(0u, 0u, 0u, 0u);
    if (next.row < R) load_tile(later, x, next, policy);
#pragma unroll
    for (int a = 0; a < FLIGHT; ++a) sum += sum_of(now[a]);
    if (!kAligned) {
      const Row in(x, at.row);
      if (at.tile == 0) sum += in.head_sum(thread, BLOCK);
      if (at.tile == tiles - 1) sum += in.tail_sum(thread, BLOCK);
    }
    if (next.row != at.row) {
      sum = lanes_sum<32>(sum);
      if (thread % 32 == 0) slots[flip][thread / 32] = sum;
      __syncthreads();
      if (thread == 0) {
        for (; written < at.row; ++written) mine[static_cast<long long>(written) * pitch] = 0.0f;
        mine[static_cast<long long>(written) * pitch] = sum_slots<BLOCK / 32>(slots[flip]);
        ++written;
      }
      flip ^= 1;
      sum = 0.0f;
    }
    at = next;
#pragma unroll
    for (int a = 0; a < FLIGHT; ++a) now[a] = later[a];
  }
  if (thread == 0)
    for (; written < R; ++written) mine[static_cast<long long>(written) * pitch] = 0.0f;
#if GRID_BARRIER
  cooperative_groups::this_grid().sync();
  if (static_cast<int>(blockIdx.x) < R)  // there are more blocks than rows
    add_row(parts, y, blockIdx.x, R, gridDim.x, pitch, BLOCK, BLOCK);
#endif
#endif
}

extern "C" __global__ void __launch_bounds__(1024)
    add_parts(const float* parts, float* y, int R, int count, int pitch, int team) {
#if WAY == 1 || (WAY == 2 && !GRID_BARRIER)
  const int row = team == 32 ? static_cast<int>(blockIdx.x) * 32 + static_cast<int>(threadIdx.x) / 32 : static_cast<int>(blockIdx.x);
  add_row(parts, y, row, R, count, pitch, team, 1024);
#endif
}
