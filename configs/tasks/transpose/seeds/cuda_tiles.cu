/*--- cultivar
name: transpose_tiles
task: transpose
target: cuda
about: "Square tiles through shared memory: vectors of 16 bytes are read along the rows of x and written along the rows of y."
tunables:
  TILE: {values: [32, 64, 128], default: 64}        # elements of a side
  THREADS: {values: [64, 128, 256, 512], default: 256}
  ORDER: {values: [along_x, along_y], default: along_x}  # of the tiles: neighbours read, or write, the same rows
  LOADS: {values: [plain, streaming], default: streaming}
  STORES: {values: [plain, streaming], default: streaming}
constraints:
  - "TILE * (TILE + 1) * 4 <= smem_max"
  - "THREADS <= TILE * TILE / 8 && TILE * TILE / THREADS <= 64"  # at least one vector for a thread, at most 16
specialize: [dtype]
let:
  down: "ceil_div(R, TILE)"
  across: "ceil_div(C, TILE)"
launch:
  - kernel: transpose
    grid: ["B * down * across", 1, 1]
    block: [THREADS, 1, 1]
    shared: "TILE * (TILE + 1) * element_bytes"
    args: [x, y, R, C, down, across]
---*/

// In shared memory a row of a tile has TILE + 1 elements, so that a column meets few banks twice. Where a row does not begin
// at a multiple of 16 bytes, or a vector crosses the edge, it is moved by elements.

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
  Element part[kVector];
};

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

enum : int { kPitch = TILE + 1, kVectors = TILE / kVector };

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS)
    transpose(const Element* x, Element* y, int R, int C, int down, int across) {
  extern __shared__ __align__(16) unsigned char memory[];
  Element* const tile = reinterpret_cast<Element*>(memory);
  const int tiles = down * across, matrix = blockIdx.x / tiles, index = blockIdx.x % tiles;
  const int top = (ORDER == ORDER_along_x ? index / across : index % down) * TILE;
  const int left = (ORDER == ORDER_along_x ? index % across : index / down) * TILE;
  const Element* const from = x + static_cast<long long>(matrix) * R * C;
  Element* const to = y + static_cast<long long>(matrix) * R * C;

  const bool reads_whole = C % kVector == 0 && static_cast<long long>(R) * C % kVector == 0;
  Vector read[TILE * kVectors / THREADS];
#pragma unroll
  for (int i = 0; i < TILE * kVectors / THREADS; ++i) {
    const int at = i * THREADS + threadIdx.x, r = at / kVectors, c = at % kVectors * kVector;
    if (top + r >= R || left + c >= C) continue;
    const long long first = static_cast<long long>(top + r) * C + left + c;
    if (reads_whole) {
      read[i].whole = load_whole(from + first);
    } else {
#pragma unroll
      for (int e = 0; e < kVector; ++e)
        if (left + c + e < C) read[i].part[e] = from[first + e];
    }
  }
#pragma unroll
  for (int i = 0; i < TILE * kVectors / THREADS; ++i) {
    const int at = i * THREADS + threadIdx.x, r = at / kVectors, c = at % kVectors * kVector;
#pragma unroll
    for (int e = 0; e < kVector; ++e) tile[r * kPitch + c + e] = read[i].part[e];
  }
  __syncthreads();

  const bool writes_whole = R % kVector == 0 && static_cast<long long>(R) * C % kVector == 0;
#pragma unroll
  for (int i = 0; i < TILE * kVectors / THREADS; ++i) {
    const int at = i * THREADS + threadIdx.x, c = at / kVectors, r = at % kVectors * kVector;
    if (left + c >= C || top + r >= R) continue;
    const long long first = static_cast<long long>(left + c) * R + top + r;
    Vector column;
#pragma unroll
    for (int e = 0; e < kVector; ++e) column.part[e] = tile[(r + e) * kPitch + c];
    if (writes_whole) {
      store_whole(to + first, column.whole);
    } else {
#pragma unroll
      for (int e = 0; e < kVector; ++e)
        if (top + r + e < R) to[first + e] = column.part[e];
    }
  }
}
