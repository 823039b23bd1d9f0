/*--- cultivar
name: transpose_tiles
task: transpose
target: cuda
about: "Tiles through shared memory, their shape chosen by workload: square ones, smaller for small grids; all rows of a strip if R is small or odd, whose output is one contiguous run."
tunables:
  TILE: {values: [64, 128], default: 128}        # elements of a side of the large square tiles
  THREADS: {values: [128, 256, 512], default: 256}
  ORDER: {values: [along_x, along_y], default: along_x}  # of the tiles: neighbours read, or write, the same rows
  LOADS: {values: [plain, streaming, once], default: plain}  # once: not in L1, the first to leave L2
  STORES: {values: [plain, streaming, last], default: last}  # last: the last to leave L2
constraints:
  - "TILE * (TILE + 1) * 4 <= smem_max"
  - "THREADS <= TILE * TILE / 8"
  - "TILE * TILE / THREADS <= 128"
specialize: [dtype, ROWS, COLS, FULL]
let:
  spans: "R % 8 != 0 && R <= 256"  # a strip has all rows
  small: "B * ceil_div(R, 128) * ceil_div(C, 128) < 264"
  ROWS: "R <= 16 ? 16 : (spans ? 256 : (small ? 64 : TILE))"
  COLS: "R <= 16 ? 64 : (spans ? 64 : (small ? 64 : TILE))"
  FULL: "(R % ROWS == 0 && C % COLS == 0) ? 1 : 0"  # no tile crosses an edge, and every vector is aligned
  down: "ceil_div(R, ROWS)"
  across: "ceil_div(C, COLS)"
  held: "min(R, ROWS)"  # rows that shared memory holds
launch:
  - kernel: transpose
    grid: ["B * down * across", 1, 1]
    block: [THREADS, 1, 1]
    shared: "round_up(((ROWS > 128 ? held : ROWS) * (COLS + 1) + 16) * element_bytes, 16)"
    args: [x, y, R, C, down, across]
---*/

// In shared memory a row of a tile has COLS + 1 elements, and a word more lies after every 64 rows, so that a column meets few
// banks twice. Where a row of x does not begin at a multiple of 16 bytes, or a vector crosses an edge, it is moved by elements.

namespace {

// Enums, because NVRTC would make writable device globals of constants.
#if defined(DTYPE_F32)
using Element = float;
enum : int { kVector = 4, kBlocks = 1 };  // elements of 16 bytes
#else
using Element = unsigned short;
enum : int { kVector = 8, kBlocks = THREADS < 256 ? 1 : 1024 / THREADS };  // at most 64 registers
#endif

union Vector {
  uint4 whole;
  Element part[kVector];
};

__device__ __forceinline__ uint4 load_whole(const Element* from) {
  const uint4* const address = reinterpret_cast<const uint4*>(from);
  if (LOADS == LOADS_once) {
    unsigned long long policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    uint4 value;
    asm volatile("ld.global.nc.L1::no_allocate.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
                 : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
                 : "l"(address), "l"(policy));
    return value;
  }
  return LOADS == LOADS_streaming ? __ldcs(address) : *address;
}
__device__ __forceinline__ void store_whole(Element* to, uint4 value) {
  uint4* const address = reinterpret_cast<uint4*>(to);
  if (STORES == STORES_last) {
    // No clobber of memory: nothing reads y here, and reads of shared memory may pass these writes.
    unsigned long long policy;
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    asm volatile("st.global.L2::cache_hint.v4.u32 [%0], {%1, %2, %3, %4}, %5;"
                 :
                 : "l"(address), "r"(value.x), "r"(value.y), "r"(value.z), "r"(value.w), "l"(policy));
    return;
  }
  if (STORES == STORES_streaming)
    __stcs(address, value);
  else
    *address = value;
}

enum : int {
  kPitch = COLS + 1,
  kAcross = COLS / kVector,                              // vectors of a row of the tile of x
  kDown = ROWS / kVector,                                // vectors of a row of the tile of y
  kReads = (ROWS * kAcross + THREADS - 1) / THREADS,     // of a thread
  kWrites = (COLS * kDown + THREADS - 1) / THREADS,
  kLine = ROWS == 256,                                   // all rows, in shared memory in the order of the output
  kRun = ROWS == 16,                                     // R <= ROWS: the tile has all rows
  kMost = kLine ? 4 : 8,
  kBatch = kReads < kMost ? kReads : kMost,              // reads in flight
  kResident = kLine ? 1536 / THREADS : kBlocks
};

__device__ __forceinline__ int slot(int r, int c) { return r * kPitch + c + (r >> 6) * 2; }

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS, kResident)
    transpose(const Element* x, Element* y, int R, int C, int down, int across) {
  extern __shared__ __align__(16) unsigned char memory[];
  Element* const tile = reinterpret_cast<Element*>(memory);
  const int tiles = down * across, matrix = blockIdx.x / tiles, index = blockIdx.x % tiles;
  const int top = (ORDER == ORDER_along_x ? index / across : index % down) * ROWS;
  const int left = (ORDER == ORDER_along_x ? index % across : index / down) * COLS;
  const long long begin = static_cast<long long>(matrix) * R * C;
  const Element* const from = x + begin;
  // Of a strip: where its output begins, and that modulo 16 bytes.
  const long long line = begin + static_cast<long long>(left) * R;
  const int offset = static_cast<int>(line % kVector);

#if FULL
  // Rows of a step: powers of two up to 64, so that the word after every 64 rows depends on the step alone.
  enum : int { kStepDown = THREADS / kAcross, kStepAcross = THREADS / kDown };
  enum : int { kAllRead = ROWS * kAcross % THREADS == 0, kAllWrite = COLS * kDown % THREADS == 0 };
  {
    const int r = static_cast<int>(threadIdx.x) / kAcross, c = static_cast<int>(threadIdx.x) % kAcross * kVector;
    if (kAllRead || r < ROWS) {
      const Element* source = from + static_cast<long long>(top + r) * C + left + c;
      const long long step = static_cast<long long>(kStepDown) * C;
      Element* const there = tile + r * kPitch + c;
#pragma unroll
      for (int base = 0; base < kReads; base += kBatch) {
        Vector read[kBatch];
#pragma unroll
        for (int i = 0; i < kBatch; ++i) {
          read[i].whole = load_whole(source);
          source += step;
        }
#pragma unroll
        for (int i = 0; i < kBatch; ++i) {
          const int row = (base + i) * kStepDown;
#pragma unroll
          for (int e = 0; e < kVector; ++e) there[row * kPitch + (row >> 6) * 2 + e] = read[i].part[e];
        }
      }
    }
  }
  __syncthreads();
  {
    const int c = static_cast<int>(threadIdx.x) / kDown, r = static_cast<int>(threadIdx.x) % kDown * kVector;
    if (kAllWrite || c < COLS) {
      Element* to = y + begin + static_cast<long long>(left + c) * R + top + r;
      const long long step = static_cast<long long>(kStepAcross) * R;
      const Element* const there = tile + slot(r, c);
#pragma unroll
      for (int i = 0; i < kWrites; ++i) {
        Vector column;
#pragma unroll
        for (int e = 0; e < kVector; ++e) column.part[e] = there[e * kPitch + i * kStepAcross];
        store_whole(to, column.whole);
        to += step;
      }
    }
  }
#else
  if (C % kVector == 0 && static_cast<long long>(R) * C % kVector == 0) {
#pragma unroll
    for (int base = 0; base < kReads; base += kBatch) {
      Vector read[kBatch];
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        const int at = (base + i) * THREADS + threadIdx.x, r = at / kAcross, c = at % kAcross * kVector;
        if (r < ROWS && top + r < R && left + c < C)
          read[i].whole = load_whole(from + static_cast<long long>(top + r) * C + left + c);
      }
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        const int at = (base + i) * THREADS + threadIdx.x, r = at / kAcross, c = at % kAcross * kVector;
        if (r < ROWS && top + r < R && left + c < C) {
#pragma unroll
          for (int e = 0; e < kVector; ++e)
            tile[kLine ? offset + (c + e) * R + r : slot(r, c + e)] = read[i].part[e];
        }
      }
    }
  } else {
#pragma unroll 4
    for (int at = threadIdx.x; at < ROWS * COLS; at += THREADS) {
      const int r = at / COLS, c = at % COLS;
      if (top + r < R && left + c < C)
        tile[kLine ? offset + c * R + r : slot(r, c)] = from[static_cast<long long>(top + r) * C + left + c];
    }
  }
  __syncthreads();

  if (kLine) {
    const int width = C - left < COLS ? C - left : COLS, end = offset + width * R;
    Element* const to = y + (line - offset);
    for (int at = static_cast<int>(threadIdx.x) * kVector; at < end; at += THREADS * kVector) {
      if (at >= offset && at + kVector <= end) {
        store_whole(to + at, *reinterpret_cast<const uint4*>(tile + at));
      } else {
#pragma unroll
        for (int e = 0; e < kVector; ++e)
          if (at + e >= offset && at + e < end) to[at + e] = tile[at + e];
      }
    }
    return;
  }
  if (kRun) {
    // Rows of y follow each other: a run of width * R elements, cut at multiples of 16 bytes.
    const int width = C - left < COLS ? C - left : COLS, count = width * R;
    const long long run = begin + static_cast<long long>(left) * R;
    const int shift = static_cast<int>(run % kVector);
    Element* const to = y + run;
    for (int first = static_cast<int>(threadIdx.x) * kVector - shift; first < count; first += THREADS * kVector) {
      int c = first < 0 ? 0 : static_cast<int>(static_cast<unsigned>(first) / static_cast<unsigned>(R));
      int r = first - c * R;  // negative before the run
      Vector column;
#pragma unroll
      for (int e = 0; e < kVector; ++e) {
        if (r >= 0 && first + e < count) column.part[e] = tile[slot(r, c)];
        if (++r == R) {
          r = 0;
          ++c;
        }
      }
      if (first >= 0 && first + kVector <= count) {
        store_whole(to + first, column.whole);
      } else {
#pragma unroll
        for (int e = 0; e < kVector; ++e)
          if (first + e >= 0 && first + e < count) to[first + e] = column.part[e];
      }
    }
    return;
  }

  Element* const to = y + begin;
  if (R % kVector == 0 && static_cast<long long>(R) * C % kVector == 0) {
#pragma unroll
    for (int i = 0; i < kWrites; ++i) {
      const int at = i * THREADS + threadIdx.x, c = at / kDown, r = at % kDown * kVector;
      if (c >= COLS || left + c >= C || top + r >= R) continue;
      Vector column;
#pragma unroll
      for (int e = 0; e < kVector; ++e) column.part[e] = tile[slot(r + e, c)];
      store_whole(to + static_cast<long long>(left + c) * R + top + r, column.whole);
    }
  } else {
#pragma unroll 4
    for (int at = threadIdx.x; at < ROWS * COLS; at += THREADS) {
      const int c = at / ROWS, r = at % ROWS;
      if (top + r < R && left + c < C) to[static_cast<long long>(left + c) * R + top + r] = tile[slot(r, c)];
    }
  }
#endif
}
