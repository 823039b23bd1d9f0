/*--- cultivar
name: linear_register_stream
task: linear
target: cuda
about: "mma.sync with w as A and tokens as B, both loaded as 16 bytes per thread directly into registers (K permuted alike), weights several chunks ahead; equal shares of N over the multiprocessors, K split over warps and a cluster."
requires: "dtype == bf16"
tunables:
  AHEAD_MAX: {values: [2, 4, 6], default: 4}  # chunks of 32 of K whose weights are loaded ahead
constraints: ["smem <= smem_max"]
specialize: [TOK_TILES, ROW_TILES, ROW_GROUPS, SPLIT, AHEAD, ALIGNED]
let:
  TOK_TILES: "M <= 8 ? 1 : (M <= 16 ? 2 : (M <= 32 ? 4 : 8))"
  ALIGNED: "K % 8 == 0 ? 1 : 0"
  SPLIT: "TOK_TILES <= 2 ? 1 : 2"
  teams: "floor_div(132, SPLIT)"
  share: "ceil_div(N, teams)"
  ROW_GROUPS: "share <= 48 ? 1 : (share <= 96 ? 2 : 4)"
  waves: "ceil_div(share, 48 * ROW_GROUPS)"
  rows: "ceil_div(N, teams * waves)"
  group_rows: "ceil_div(rows, ROW_GROUPS)"
  ROW_TILES: "ceil_div(group_rows, 16)"
  AHEAD: "TOK_TILES == 8 ? min(AHEAD_MAX, 3) : AHEAD_MAX"
  smem: "4096 * ROW_TILES * TOK_TILES"
launch:
  - kernel: linear
    grid: ["SPLIT * ceil_div(N, rows)", "ceil_div(M, 8 * TOK_TILES)", 1]
    block: [256, 1, 1]
    cluster: [SPLIT, 1, 1]
    shared: smem
    args: [x, w, bias, y, M, N, K, with_bias, gelu, rows, group_rows]
---*/

// A block (a cluster of SPLIT blocks) owns `rows` rows of w and all tokens of its tile. Its 8 warps are ROW_GROUPS groups
// of rows times kParts parts of K. A warp takes 32 of K at once: thread t loads 16 bytes of row t / 4 at 8 (t % 4), which
// are its operands of two m16n8k16 products, with K permuted in the same way for w and x.

namespace {

using Element = unsigned short;

enum : int {
  kParts = 8 / ROW_GROUPS,
  kTokens = 8 * TOK_TILES,
  kTiles = ROW_TILES * TOK_TILES,
  kQuads = kTiles * 32,
  kTokensAhead = TOK_TILES == 8 ? 1 : 2
};
static_assert(AHEAD % kTokensAhead == 0);

// 8 elements of a row; zeros where there are none. kKeep: others of the block will read the same.
template <bool kKeep>
__device__ __forceinline__ uint4 load8(const Element* row, int k, int K, bool exists) {
#if ALIGNED
  uint4 v;
  const int inside = exists && k < K ? 1 : 0;
  if constexpr (kKeep) {
    asm volatile(
        "{\n\t.reg .pred p;\n\tsetp.ne.s32 p, %5, 0;\n\t"
        "mov.b32 %0, 0;\n\tmov.b32 %1, 0;\n\tmov.b32 %2, 0;\n\tmov.b32 %3, 0;\n\t"
        "@p ld.global.nc.v4.b32 {%0, %1, %2, %3}, [%4];\n\t}"
        : "=&r"(v.x), "=&r"(v.y), "=&r"(v.z), "=&r"(v.w)
        : "l"(row + k), "r"(inside));
  } else {
    asm volatile(
        "{\n\t.reg .pred p;\n\tsetp.ne.s32 p, %5, 0;\n\t"
        "mov.b32 %0, 0;\n\tmov.b32 %1, 0;\n\tmov.b32 %2, 0;\n\tmov.b32 %3, 0;\n\t"
        "@p ld.global.nc.L1::no_allocate.v4.b32 {%0, %1, %2, %3}, [%4];\n\t}"
        : "=&r"(v.x), "=&r"(v.y), "=&r"(v.z), "=&r"(v.w)
        : "l"(row + k), "r"(inside));
  }
  return v;
#else
  unsigned pair[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int at = k + 2 * i;
    const unsigned low = exists && at < K ? row[at] : 0;
    const unsigned high = exists && at + 1 < K ? row[at + 1] : 0;
    pair[i] = low | high << 16;
  }
  return make_uint4(pair[0], pair[1], pair[2], pair[3]);
#endif
}

__device__ __forceinline__ void multiply(float (&c)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0,
                                         unsigned b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

__device__ __forceinline__ void cluster_barrier() {
  asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

__device__ __forceinline__ float4 of_block(unsigned address, int rank) {
  unsigned there;
  float4 v;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "r"(there)
               : "memory");
  return v;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(256, 1)
    linear(const Element* __restrict__ x, const Element* __restrict__ w, const Element* __restrict__ bias,
           Element* __restrict__ y, int M, int N, int K, int with_bias, int gelu, int rows, int group_rows) {
  extern __shared__ __align__(1024) unsigned char memory[];
  float4* const partial = reinterpret_cast<float4*>(memory);
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const int group = warp % ROW_GROUPS, part = warp / ROW_GROUPS;
  const int rank = static_cast<int>(blockIdx.x) % SPLIT;
  const int block_row = static_cast<int>(blockIdx.x) / SPLIT * rows;
  const int block_end = min(block_row + rows, N);
  const int first_token = static_cast<int>(blockIdx.y) * kTokens;

  const int first_row = block_row + group * group_rows + (lane >> 2);
  const int end_row = min(block_row + (group + 1) * group_rows, block_end);
  const int my_token = first_token + (lane >> 2);
  const Element* const w_lane = w + static_cast<long long>(first_row) * K;
  const Element* const x_lane = x + static_cast<long long>(my_token) * K;

  uint4 of_w[AHEAD][ROW_TILES][2];
  uint4 of_x[kTokensAhead][TOK_TILES];
  float sums[ROW_TILES][TOK_TILES][4] = {};

  const int chunks = (K + 31) / 32;
  const int turns = (chunks + kParts * SPLIT - 1) / (kParts * SPLIT);
  const auto k_of = [&](int turn) { return ((turn * SPLIT + rank) * kParts + part) * 32 + (lane & 3) * 8; };
  const auto load_w = [&](uint4(&to)[ROW_TILES][2], int turn) {
    const int k = k_of(turn);
#pragma unroll
    for (int r = 0; r < ROW_TILES; ++r)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        to[r][h] = load8<false>(w_lane + static_cast<long long>(r * 16 + h * 8) * K, k, K,
                                first_row + r * 16 + h * 8 < end_row);
      }
  };
  const auto load_x = [&](uint4(&to)[TOK_TILES], int turn) {
    const int k = k_of(turn);
#pragma unroll
    for (int j = 0; j < TOK_TILES; ++j) {
      to[j] = load8<true>(x_lane + static_cast<long long>(j * 8) * K, k, K, my_token + j * 8 < M);
    }
  };

#pragma unroll
  for (int d = 0; d < AHEAD; ++d) {
    load_w(of_w[d], d);
    if (d < kTokensAhead) load_x(of_x[d], d);
  }
  // Turns after the last one multiply zeros.
  for (int turn = 0; turn < turns; turn += AHEAD) {
#pragma unroll
    for (int d = 0; d < AHEAD; ++d) {
      const int e = d % kTokensAhead;
#pragma unroll
      for (int r = 0; r < ROW_TILES; ++r)
#pragma unroll
        for (int j = 0; j < TOK_TILES; ++j) {
          multiply(sums[r][j], of_w[d][r][0].x, of_w[d][r][1].x, of_w[d][r][0].y, of_w[d][r][1].y, of_x[e][j].x,
                   of_x[e][j].y);
        }
#pragma unroll
      for (int r = 0; r < ROW_TILES; ++r)
#pragma unroll
        for (int j = 0; j < TOK_TILES; ++j) {
          multiply(sums[r][j], of_w[d][r][0].z, of_w[d][r][1].z, of_w[d][r][0].w, of_w[d][r][1].w, of_x[e][j].z,
                   of_x[e][j].w);
        }
      load_x(of_x[e], turn + d + kTokensAhead);
      load_w(of_w[d], turn + d + AHEAD);
    }
  }

  // The sums of the parts of K, always in the same order.
#pragma unroll
  for (int r = 0; r < ROW_TILES; ++r)
#pragma unroll
    for (int j = 0; j < TOK_TILES; ++j) {
      partial[warp * kQuads + (r * TOK_TILES + j) * 32 + lane] =
          make_float4(sums[r][j][0], sums[r][j][1], sums[r][j][2], sums[r][j][3]);
    }
  __syncthreads();

  const auto store = [&](float v, int row, int end, int token) {
    if (row >= end || token >= M) return;
    if (with_bias) v += __uint_as_float(static_cast<unsigned>(bias[row]) << 16);
    if (gelu) v = 0.5f * v * (1.0f + tanhf(0.797884561f * (v + 0.044715f * v * v * v)));
    Element rounded;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(rounded) : "f"(v));
    y[static_cast<long long>(token) * N + row] = rounded;
  };
  const auto finish = [&](int q, float4 v) {
    const int of_group = q / kQuads, tile = q % kQuads / 32, l = q % 32;
    const int row = block_row + of_group * group_rows + tile / TOK_TILES * 16 + l / 4;
    const int end = min(block_row + (of_group + 1) * group_rows, block_end);
    const int token = first_token + tile % TOK_TILES * 8 + l % 4 * 2;
    store(v.x, row, end, token);
    store(v.y, row, end, token + 1);
    store(v.z, row + 8, end, token);
    store(v.w, row + 8, end, token + 1);
  };
  for (int q = threadIdx.x; q < ROW_GROUPS * kQuads; q += 256) {
    float4 v = partial[q];
#pragma unroll
    for (int p = 1; p < kParts; ++p) {
      const float4 other = partial[p * ROW_GROUPS * kQuads + q];
      v.x += other.x;
      v.y += other.y;
      v.z += other.z;
      v.w += other.w;
    }
#if SPLIT > 1
    partial[q] = v;
#else
    finish(q, v);
#endif
  }
#if SPLIT > 1
  __syncwarp();
  cluster_barrier();
  const unsigned base = static_cast<unsigned>(__cvta_generic_to_shared(memory));
  for (int q = rank * 256 + threadIdx.x; q < ROW_GROUPS * kQuads; q += 256 * SPLIT) {
    float4 v = of_block(base + q * 16, 0);
#pragma unroll
    for (int other_rank = 1; other_rank < SPLIT; ++other_rank) {
      const float4 other = of_block(base + q * 16, other_rank);
      v.x += other.x;
      v.y += other.y;
      v.z += other.z;
      v.w += other.w;
    }
    finish(q, v);
  }
  __syncwarp();
  cluster_barrier();
#endif
}
