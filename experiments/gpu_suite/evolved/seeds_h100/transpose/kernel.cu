/*--- cultivar
name: transpose_tiles
task: transpose
target: cuda
about: "Square tiles through shared memory, smaller ones for small grids; rows of y that are not aligned are written by a warp each, in pairs of elements next to each other."
tunables:
  TILE: {values: [32, 64, 128], default: 128}        # elements of a side
  THREADS: {values: [64, 128, 256, 512], default: 256}
  ORDER: {values: [along_x, along_y], default: along_x}  # of the tiles: neighbours read, or write, the same rows
  LOADS: {values: [plain, streaming], default: plain}
  STORES: {values: [plain, streaming], default: plain}
constraints:
  - "TILE * (TILE + 1) * 4 <= smem_max"
  - "THREADS <= TILE * TILE / 8 && TILE * TILE / THREADS <= 64"  # at least one vector for a thread, at most 16
specialize: [dtype, SIDE]
let:
  SIDE: "B * ceil_div(R, TILE) * ceil_div(C, TILE) < 264 ? min(TILE, 64) : TILE"
  down: "ceil_div(R, SIDE)"
  across: "ceil_div(C, SIDE)"
launch:
  - kernel: transpose
    grid: ["B * down * across", 1, 1]
    block: [THREADS, 1, 1]
    shared: "SIDE * (SIDE + 1) * element_bytes"
    args: [x, y, R, C, down, across]
---*/

// In shared memory a row of a tile has SIDE + 1 elements, so that a column meets few banks twice. Where a row of x does not begin
// at a multiple of 16 bytes, it is read by elements; where a row of y does not, a warp writes it in pairs.

namespace {

// Enums, because NVRTC would make writable device globals of constants.
#if defined(DTYPE_F32)
using Element = float;
enum : int { kVector = 4, kBlocks = 1 };  // elements of 16 bytes
#else
using Element = unsigned short;
enum : int { kVector = 8, kBlocks = 1024 / THREADS };  // at most 64 registers
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

enum : int { kPitch = SIDE + 1, kVectors = SIDE / kVector, kMoves = SIDE * kVectors / THREADS };

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS, kBlocks)
    transpose(const Element* x, Element* y, int R, int C, int down, int across) {
  extern __shared__ __align__(16) unsigned char memory[];
  Element* const tile = reinterpret_cast<Element*>(memory);
  const int tiles = down * across, matrix = blockIdx.x / tiles, index = blockIdx.x % tiles;
  const int top = (ORDER == ORDER_along_x ? index / across : index % down) * SIDE;
  const int left = (ORDER == ORDER_along_x ? index % across : index / down) * SIDE;
  const Element* const from = x + static_cast<long long>(matrix) * R * C;
  Element* const to = y + static_cast<long long>(matrix) * R * C;

  const bool reads_whole = C % kVector == 0 && static_cast<long long>(R) * C % kVector == 0;
  Vector read[kMoves];
#pragma unroll
  for (int i = 0; i < kMoves; ++i) {
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
  for (int i = 0; i < kMoves; ++i) {
    const int at = i * THREADS + threadIdx.x, r = at / kVectors, c = at % kVectors * kVector;
    if (top + r >= R || left + c >= C) continue;
#pragma unroll
    for (int e = 0; e < kVector; ++e) tile[r * kPitch + c + e] = read[i].part[e];
  }
  __syncthreads();

  if (R % kVector == 0 && static_cast<long long>(R) * C % kVector == 0) {
#pragma unroll
    for (int i = 0; i < kMoves; ++i) {
      const int at = i * THREADS + threadIdx.x, c = at / kVectors, r = at % kVectors * kVector;
      if (left + c >= C || top + r >= R) continue;
      Vector column;
#pragma unroll
      for (int e = 0; e < kVector; ++e) column.part[e] = tile[(r + e) * kPitch + c];
      store_whole(to + static_cast<long long>(left + c) * R + top + r, column.whole);
    }
    return;
  }

  // A warp writes the part of a row of y that lies in the tile.
  const int lane = threadIdx.x % 32;
  const int rows = R - top < SIDE ? R - top : SIDE, columns = C - left < SIDE ? C - left : SIDE;
#pragma unroll 4
  for (int c = threadIdx.x / 32; c < columns; c += THREADS / 32) {
    Element* const row = to + static_cast<long long>(left + c) * R + top;
    const Element* const column = tile + c;
#if defined(DTYPE_F32)
#pragma unroll
    for (int i = 0; i < SIDE; i += 32)
      if (i + lane < rows) row[i + lane] = column[(i + lane) * kPitch];
#else
    const int odd = static_cast<int>(reinterpret_cast<unsigned long long>(row) >> 1 & 1);  // the row begins between two words
#pragma unroll
    for (int i = 0; i < SIDE; i += 64) {
      const int r = odd + i + 2 * lane;
      if (r + 1 < rows) {
        const unsigned low = column[r * kPitch], high = column[(r + 1) * kPitch];
        *reinterpret_cast<unsigned*>(row + r) = low | high << 16;
      }
    }
    // What is left alone: the first element of an odd row, and the last one if no pair has it.
    const bool first = lane == 0 && odd != 0, last = lane == 1 && ((rows - odd) & 1) != 0 && rows > odd;
    const int alone = last ? rows - 1 : 0;
    if (first || last) row[alone] = column[alone * kPitch];
#endif
  }
}
