/*--- cultivar
name: rmsnorm_backward_ring
task: rmsnorm_backward
target: cuda
about: "One persistent block per SM; groups of its threads take rows from private rings of bulk copies, sum row i and finish row i - 1 in one step, without waiting at barriers, with w and the sums of dw in registers, and add dw in shared memory; a dependent launch adds the blocks' sums. Other widths: rows in registers, directly."
requires: "dtype == bf16 && C <= 16384"
tunables:
  THREADS: {values: [256, 512, 1024], default: 1024}
  BLOCKS: {values: [1, 2, 3, 4, 6, 8], default: 2}   # per multiprocessor, at most; other widths only
  STAGES: {values: [5, 6, 7], default: 7}            # rows of a group's ring, if they fit
  KEEP: {values: [100, 50, 0], default: 100}         # per cent of dx that L2 keeps as long as it can
  FEW: {values: [256, 512, 1024], default: 256}      # rows up to which one launch does all
constraints: ["pieces * piece <= 64", "BLOCKS * THREADS <= threads_max", "ring == 0 || RING >= 4", "ring == 0 || GROUPS * RING * 2 * C * element_bytes + 2048 <= smem_max"]
specialize: [dtype, pieces, TEAM, GROUPS, RING, WHOLE]
let:
  piece: "16 / element_bytes"
  pieces: "ceil_div(C, THREADS * piece)"   # of a row, in one thread
  ring: "(C % piece == 0) && (C <= 1024 * piece)"
  TEAM: "ring ? max(64, round_up(ceil_div(C, 2 * piece), 32)) : 64"  # threads of a group
  GROUPS: "max(1, min(8, floor_div(640, TEAM)))"
  RING: "ring ? min(STAGES, floor_div(229376, GROUPS * 2 * C * element_bytes)) : 4"
  WHOLE: "C == 2 * piece * TEAM ? 1 : 0"  # every thread has both of its pieces
  blocks: "ring ? min(R, num_sms) : min(R, BLOCKS * num_sms)"
  few: "(ring && (R <= FEW) && (R * C <= 4194304)) ? 1 : 0"
workspace:
  parts: {bytes: "4 * blocks * C"}
launch:
  - kernel: few_gradients
    when: "few == 1"
    grid: ["ceil_div(C, 32) + R", 1, 1]
    block: [256, 1, 1]
    args: [dy, x, w, rstd, dx, dw, R, C]
  - kernel: ring_gradients
    when: "(ring == 1) && (few == 0)"
    grid: [blocks, 1, 1]
    block: ["GROUPS * TEAM", 1, 1]
    shared: "GROUPS * RING * 2 * C * element_bytes"
    args: [dy, x, w, rstd, dx, parts, R, C]
  - kernel: gradients
    when: "ring == 0"
    grid: [blocks, 1, 1]
    block: [THREADS, 1, 1]
    args: [dy, x, w, rstd, dx, parts, R, C]
  - kernel: add_parts
    when: "few == 0"
    programmatic_dependent: true
    grid: ["ceil_div(C, 32)", 1, 1]
    block: [32, 32, 1]
    args: [parts, dw, {value: blocks, type: i32}, C]
---*/

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace {

enum : int { kPiece = 16 / sizeof(DTYPE), kWarps = THREADS / 32 };
struct alignas(16) Piece {
  DTYPE value[kPiece];
};

// Piece number i of this thread, of a row of C elements; what lies beyond the row is 0.
__device__ Piece load(const DTYPE* row, int i, int C) {
  const int first = (i * THREADS + static_cast<int>(threadIdx.x)) * kPiece;
  if (C % kPiece == 0 && first < C) return *reinterpret_cast<const Piece*>(row + first);
  Piece piece;
#pragma unroll
  for (int j = 0; j < kPiece; ++j) piece.value[j] = first + j < C ? row[first + j] : DTYPE(0.0f);
  return piece;
}
__device__ void store(DTYPE* row, int i, int C, const Piece& piece) {
  const int first = (i * THREADS + static_cast<int>(threadIdx.x)) * kPiece;
  if (C % kPiece == 0) {
    if (first < C) *reinterpret_cast<Piece*>(row + first) = piece;
    return;
  }
#pragma unroll
  for (int j = 0; j < kPiece; ++j)
    if (first + j < C) row[first + j] = piece.value[j];
}

__device__ __forceinline__ unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ void wait_for(unsigned barrier, unsigned parity) {
  unsigned done = 0;
  do {
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n"
        "}\n"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
  } while (done == 0);
}

__device__ __forceinline__ void copy_row(unsigned to, const DTYPE* from, unsigned bytes, unsigned barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier)
               : "memory");
}

__device__ __forceinline__ void read_words(unsigned (&to)[4], unsigned from) {
  asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(from)
               : "memory");
}
__device__ __forceinline__ unsigned long long result_policy() {
  unsigned long long policy = 0;
#if KEEP >= 100
  asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
#elif KEEP > 0
  asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 0.5;" : "=l"(policy));
#endif
  return policy;
}
__device__ __forceinline__ void write_words(uint4* to, const unsigned (&from)[4], unsigned long long policy) {
#if KEEP > 0
  asm volatile("st.global.L2::cache_hint.v4.u32 [%0], {%1, %2, %3, %4}, %5;" ::"l"(to), "r"(from[0]), "r"(from[1]),
               "r"(from[2]), "r"(from[3]), "l"(policy)
               : "memory");
#else
  *to = make_uint4(from[0], from[1], from[2], from[3]);
#endif
}
__device__ __forceinline__ float low_half(unsigned word) { return __uint_as_float(word << 16); }
__device__ __forceinline__ float high_half(unsigned word) { return __uint_as_float(word & 0xffff0000u); }

}  // namespace

// C is a multiple of kPiece and at most 2 pieces for each of the TEAM threads of a group. In step i a warp takes its part of
// the dot product of row i and tells it to its group, then finishes row i - 1, whose sum was there long ago. A row is read from
// its stage in both; the stage of row i - 3 is free when the sum of row i - 1 is complete.
extern "C" __global__ void __launch_bounds__(GROUPS* TEAM, 1)
    ring_gradients(const DTYPE* dy, const DTYPE* x, const DTYPE* w, const float* rstd, DTYPE* dx, float* parts, int R,
                   int C) {
  extern __shared__ __align__(128) unsigned char ring_bytes[];
  __shared__ __align__(8) unsigned long long full[8 * RING];
  __shared__ __align__(8) unsigned long long told[8 * 4];
  __shared__ float partial[4][32];  // of the warps, of four rows
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  constexpr int kTeamWarps = TEAM / 32;
  const int group = static_cast<int>(threadIdx.x) / TEAM;
  const int t = static_cast<int>(threadIdx.x) - group * TEAM;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const bool leader = threadIdx.x % 32 == 0;
  const int all = C / kPiece;  // pieces of a row
  const unsigned row_bytes = static_cast<unsigned>(C) * static_cast<unsigned>(sizeof(DTYPE));
  const unsigned mine = shared_address(ring_bytes) + static_cast<unsigned>(group * RING) * 2u * row_bytes;
  const unsigned full_address = shared_address(full + group * RING);
  const unsigned told_address = shared_address(told + group * 4);
  if (t == 0) {
#pragma unroll
    for (int s = 0; s < RING; ++s)
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(full_address + 8 * s) : "memory");
#pragma unroll
    for (int s = 0; s < 4; ++s)
      asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(told_address + 8 * s), "r"(kTeamWarps) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();

  const int first_row = static_cast<int>(blockIdx.x) + static_cast<int>(gridDim.x) * group;
  const int step = static_cast<int>(gridDim.x) * GROUPS;
  const int count = first_row < R ? (R - 1 - first_row) / step + 1 : 0;  // rows of this group
  const auto fetch = [&](int number, int stage) {  // by the first thread of the group
    const unsigned barrier = full_address + 8 * stage;
    const unsigned to = mine + static_cast<unsigned>(stage) * 2u * row_bytes;
    const long long from = static_cast<long long>(first_row + number * step) * C;
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(2u * row_bytes) : "memory");
    copy_row(to, dy + from, row_bytes, barrier);
    copy_row(to + row_bytes, x + from, row_bytes, barrier);
  };
  if (t == 0)
    for (int s = 0; s < RING; ++s)
      if (s < count) fetch(s, s);

  const auto has = [&](int p) { return WHOLE != 0 || t + p * TEAM < all; };
  unsigned weight[2][4];
#pragma unroll
  for (int p = 0; p < 2; ++p) {
    const uint4 words = has(p) ? reinterpret_cast<const uint4*>(w)[t + p * TEAM] : make_uint4(0u, 0u, 0u, 0u);
    weight[p][0] = words.x;
    weight[p][1] = words.y;
    weight[p][2] = words.z;
    weight[p][3] = words.w;
  }
  const unsigned long long policy = result_policy();  // results stay in L2 as long as they can
  float sums[2][kPiece] = {};
  const float inverse = 1.0f / static_cast<float>(C);
  float scale = 0.0f, next_scale = count > 0 ? rstd[first_row] : 0.0f;
  int stage = 0, stage1 = 0, stage2 = 0, stage3 = 0;  // of row i and of those before
  unsigned parity = 0;
  for (int i = 0; i <= count; ++i) {
    const float scale1 = scale;  // of row i - 1
    if (i < count) {
      scale = next_scale;
      if (i + 1 < count) next_scale = rstd[first_row + (i + 1) * step];
      wait_for(full_address + 8 * stage, parity);
      const unsigned in = mine + static_cast<unsigned>(stage) * 2u * row_bytes + static_cast<unsigned>(t) * 16u;
      unsigned g[2][4], n[2][4];
#pragma unroll
      for (int p = 0; p < 2; ++p) {
#pragma unroll
        for (int q = 0; q < 4; ++q) g[p][q] = n[p][q] = 0u;
        if (has(p)) {
          read_words(g[p], in + p * TEAM * 16);
          read_words(n[p], in + row_bytes + p * TEAM * 16);
        }
      }
      float some[4] = {};
#pragma unroll
      for (int p = 0; p < 2; ++p)
#pragma unroll
        for (int q = 0; q < 4; ++q) {
          const float low = low_half(g[p][q]) * low_half(n[p][q]);
          const float high = high_half(g[p][q]) * high_half(n[p][q]);
          sums[p][2 * q] = fmaf(low, scale, sums[p][2 * q]);
          sums[p][2 * q + 1] = fmaf(high, scale, sums[p][2 * q + 1]);
          some[2 * p] = fmaf(low, low_half(weight[p][q]), some[2 * p]);
          some[2 * p + 1] = fmaf(high, high_half(weight[p][q]), some[2 * p + 1]);
        }
      float sum = (some[0] + some[1]) + (some[2] + some[3]);
#pragma unroll
      for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
      __syncwarp();
      if (leader) {
        partial[i & 3][warp] = sum;
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(told_address + 8 * (i & 3)) : "memory");
      }
    }
    if (i > 0) {
      const int j = i - 1;
      wait_for(told_address + 8 * (j & 3), static_cast<unsigned>(j >> 2) & 1u);
      // Every warp has told its part of row j, after it finished row j - 2.
      if (t == 0 && j >= 2 && j - 2 + RING < count) fetch(j - 2 + RING, stage3);
      float sum = 0.0f;
#pragma unroll
      for (int k = 0; k < kTeamWarps; ++k) sum += partial[j & 3][group * kTeamWarps + k];
      const float back = sum * inverse * scale1 * scale1;  // the mean of g * n, times rstd
      const unsigned in = mine + static_cast<unsigned>(stage1) * 2u * row_bytes + static_cast<unsigned>(t) * 16u;
      uint4* const out = reinterpret_cast<uint4*>(dx + static_cast<long long>(first_row + j * step) * C);
#pragma unroll
      for (int p = 0; p < 2; ++p)
        if (has(p)) {
          unsigned g[4], n[4], result[4];
          read_words(g, in + p * TEAM * 16);
          read_words(n, in + row_bytes + p * TEAM * 16);
#pragma unroll
          for (int q = 0; q < 4; ++q) {
            const float low = scale1 * (low_half(g[q]) * low_half(weight[p][q]) - low_half(n[q]) * back);
            const float high = scale1 * (high_half(g[q]) * high_half(weight[p][q]) - high_half(n[q]) * back);
            asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result[q]) : "f"(high), "f"(low));
          }
          write_words(out + t + p * TEAM, result, policy);
        }
    }
    stage3 = stage2;
    stage2 = stage1;
    stage1 = stage;
    if (++stage == RING) {
      stage = 0;
      parity ^= 1u;
    }
  }

  // The groups' sums of dw, through the memory of the rings: all copies have arrived and were read.
  __syncthreads();
  float* const shared_sums = reinterpret_cast<float*>(ring_bytes);
#pragma unroll
  for (int p = 0; p < 2; ++p)
    if (has(p)) {
      float4* const to = reinterpret_cast<float4*>(shared_sums + group * C + (t + p * TEAM) * kPiece);
      to[0] = make_float4(sums[p][0], sums[p][1], sums[p][2], sums[p][3]);
      to[1] = make_float4(sums[p][4], sums[p][5], sums[p][6], sums[p][7]);
    }
  __syncthreads();
  for (int c = threadIdx.x; c < C; c += GROUPS * TEAM) {
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < GROUPS; ++k) sum += shared_sums[k * C + c];
    parts[static_cast<long long>(blockIdx.x) * C + c] = sum;
  }
}

// Few rows, C a multiple of kPiece and at most 8192. The first blocks take 32 columns of all rows each, for dw; every other
// block takes one row, for dx. Both kinds read the inputs, of which one finds them in L2.
extern "C" __global__ void __launch_bounds__(256, 3)
    few_gradients(const DTYPE* dy, const DTYPE* x, const DTYPE* w, const float* rstd, DTYPE* dx, DTYPE* dw, int R, int C) {
  constexpr int kEach = (TEAM + 127) / 128;  // pieces of a row in one of 256 threads: TEAM threads would have two
  __shared__ float partial[8][32];
  const int t = static_cast<int>(threadIdx.x);
  const int warp = t / 32, lane = t % 32;
  const int all = C / kPiece;
  const int column_blocks = (C + 31) / 32;
  if (static_cast<int>(blockIdx.x) < column_blocks) {
    const int piece_of_row = static_cast<int>(blockIdx.x) * 4 + t % 4;
    const bool inside = piece_of_row < all;
    const uint4* const from_dy = reinterpret_cast<const uint4*>(dy) + piece_of_row;
    const uint4* const from_x = reinterpret_cast<const uint4*>(x) + piece_of_row;
    float sums[8] = {};
    for (int base = t / 4; base < R; base += 256) {
      uint4 g[4], n[4];
      float scale[4];
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const int row = base + 64 * k;
        g[k] = n[k] = make_uint4(0u, 0u, 0u, 0u);
        scale[k] = 0.0f;
        if (inside && row < R) {
          g[k] = __ldg(from_dy + static_cast<long long>(row) * all);
          n[k] = __ldg(from_x + static_cast<long long>(row) * all);
          scale[k] = __ldg(rstd + row);
        }
      }
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const unsigned a[4] = {g[k].x, g[k].y, g[k].z, g[k].w};
        const unsigned b[4] = {n[k].x, n[k].y, n[k].z, n[k].w};
#pragma unroll
        for (int q = 0; q < 4; ++q) {
          sums[2 * q] = fmaf(low_half(a[q]) * low_half(b[q]), scale[k], sums[2 * q]);
          sums[2 * q + 1] = fmaf(high_half(a[q]) * high_half(b[q]), scale[k], sums[2 * q + 1]);
        }
      }
    }
#pragma unroll
    for (int lanes = 16; lanes >= 4; lanes /= 2)
#pragma unroll
      for (int j = 0; j < 8; ++j) sums[j] += __shfl_xor_sync(0xffffffffu, sums[j], lanes);
    if (lane < 4) {
#pragma unroll
      for (int j = 0; j < 8; ++j) partial[warp][lane * 8 + j] = sums[j];
    }
    __syncthreads();
    if (warp == 0) {
      float sum = 0.0f;
#pragma unroll
      for (int k = 0; k < 8; ++k) sum += partial[k][lane];
      const int column = static_cast<int>(blockIdx.x) * 32 + lane;
      if (column < C) dw[column] = DTYPE(sum);
    }
    return;
  }

  const int row = static_cast<int>(blockIdx.x) - column_blocks;
  const long long start = static_cast<long long>(row) * all;
  uint4 g[kEach], n[kEach], weight[kEach];
#pragma unroll
  for (int p = 0; p < kEach; ++p) {
    const int i = t + 256 * p;
    g[p] = n[p] = weight[p] = make_uint4(0u, 0u, 0u, 0u);
    if (i < all) {
      g[p] = __ldg(reinterpret_cast<const uint4*>(dy) + start + i);
      n[p] = __ldg(reinterpret_cast<const uint4*>(x) + start + i);
      weight[p] = __ldg(reinterpret_cast<const uint4*>(w) + i);
    }
  }
  const float scale = __ldg(rstd + row);
  float some[2] = {};
#pragma unroll
  for (int p = 0; p < kEach; ++p) {
    const unsigned a[4] = {g[p].x, g[p].y, g[p].z, g[p].w};
    const unsigned b[4] = {n[p].x, n[p].y, n[p].z, n[p].w};
    const unsigned c[4] = {weight[p].x, weight[p].y, weight[p].z, weight[p].w};
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      some[0] = fmaf(low_half(a[q]) * low_half(b[q]), low_half(c[q]), some[0]);
      some[1] = fmaf(high_half(a[q]) * high_half(b[q]), high_half(c[q]), some[1]);
    }
  }
  float sum = some[0] + some[1];
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
  if (lane == 0) partial[0][warp] = sum;
  __syncthreads();
  sum = 0.0f;
#pragma unroll
  for (int k = 0; k < 8; ++k) sum += partial[0][k];
  const float back = sum / static_cast<float>(C) * scale * scale;  // the mean of g * n, times rstd
#pragma unroll
  for (int p = 0; p < kEach; ++p) {
    const int i = t + 256 * p;
    if (i < all) {
      const unsigned a[4] = {g[p].x, g[p].y, g[p].z, g[p].w};
      const unsigned b[4] = {n[p].x, n[p].y, n[p].z, n[p].w};
      const unsigned c[4] = {weight[p].x, weight[p].y, weight[p].z, weight[p].w};
      unsigned result[4];
#pragma unroll
      for (int q = 0; q < 4; ++q) {
        const float low = scale * (low_half(a[q]) * low_half(c[q]) - low_half(b[q]) * back);
        const float high = scale * (high_half(a[q]) * high_half(c[q]) - high_half(b[q]) * back);
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result[q]) : "f"(high), "f"(low));
      }
      reinterpret_cast<uint4*>(dx)[start + i] = make_uint4(result[0], result[1], result[2], result[3]);
    }
  }
}

// Other widths.
extern "C" __global__ void __launch_bounds__(THREADS)
    gradients(const DTYPE* dy, const DTYPE* x, const DTYPE* w, const float* rstd, DTYPE* dx, float* parts, int R,
              int C) {
  __shared__ float partial[2][kWarps];  // of this row and of the one before
  float sums[pieces][kPiece] = {};
  int side = 0;
  for (long long row = blockIdx.x; row < R; row += gridDim.x, side ^= 1) {
    Piece g[pieces], n[pieces];
#pragma unroll
    for (int i = 0; i < pieces; ++i) {
      g[i] = load(dy + row * C, i, C);
      n[i] = load(x + row * C, i, C);
    }
    const float scale = rstd[row];
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < pieces; ++i) {
      const Piece weight = load(w, i, C);
#pragma unroll
      for (int j = 0; j < kPiece; ++j)
        sum += static_cast<float>(g[i].value[j]) * static_cast<float>(weight.value[j]) *
               (static_cast<float>(n[i].value[j]) * scale);
    }
#pragma unroll
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (threadIdx.x % 32 == 0) partial[side][threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kWarps; ++i) sum += partial[side][i];
    const float mean = sum / static_cast<float>(C);
#pragma unroll
    for (int i = 0; i < pieces; ++i) {
      const Piece weight = load(w, i, C);
      Piece result;
#pragma unroll
      for (int j = 0; j < kPiece; ++j) {
        const float gradient = static_cast<float>(g[i].value[j]), normed = static_cast<float>(n[i].value[j]) * scale;
        result.value[j] = DTYPE(scale * (gradient * static_cast<float>(weight.value[j]) - normed * mean));
        sums[i][j] += gradient * normed;
      }
      store(dx + row * C, i, C, result);
    }
  }
#pragma unroll
  for (int i = 0; i < pieces; ++i)
#pragma unroll
    for (int j = 0; j < kPiece; ++j) {
      const int c = (i * THREADS + static_cast<int>(threadIdx.x)) * kPiece + j;
      if (c < C) parts[static_cast<long long>(blockIdx.x) * C + c] = sums[i][j];
    }
}

// 32 columns of a block; each of 32 warps adds every 32nd part, five loads at a time.
extern "C" __global__ void __launch_bounds__(1024) add_parts(const float* parts, DTYPE* dw, int blocks, int C) {
  __shared__ float partial[32][33];
  asm volatile("griddepcontrol.wait;" ::: "memory");
  const int c = blockIdx.x * 32 + threadIdx.x;
  float sum = 0.0f;
  if (c < C)
    for (int b = threadIdx.y; b < blocks; b += 32 * 5) {
      float some[5];
#pragma unroll
      for (int i = 0; i < 5; ++i) some[i] = b + 32 * i < blocks ? parts[static_cast<long long>(b + 32 * i) * C + c] : 0.0f;
#pragma unroll
      for (int i = 0; i < 5; ++i) sum += some[i];
    }
  partial[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  // Warp y adds column y.
  sum = partial[threadIdx.x][threadIdx.y];
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
  const int column = static_cast<int>(blockIdx.x) * 32 + static_cast<int>(threadIdx.y);
  if (threadIdx.x == 0 && column < C) dw[column] = DTYPE(sum);
}
