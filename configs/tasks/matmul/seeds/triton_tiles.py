"""--- cultivar
name: triton_tiles
task: matmul
target: cuda
language: triton
about: "One program per tile of C, in groups of tile rows that share B in the L2 cache; K in pipelined steps"
tunables:
  TILE_M: {values: [32, 64, 128, 256], default: 128}
  TILE_N: {values: [32, 64, 128, 256], default: 128}
  TILE_K: {values: [32, 64, 128], default: 64}
  GROUP: {values: [1, 4, 8, 16], default: 8}
  WARPS: {values: [4, 8], default: 8}
  STAGES: {values: [2, 3, 4], default: 3}
constraints:
  - "STAGES * (TILE_M + TILE_N) * 2 * TILE_K + 4096 <= smem_max"
  - "TILE_M * TILE_N <= 4096 * WARPS"
let:
  aligned: "K % 16 == 0 && N % 16 == 0"
  STEP: "2 * TILE_K / element_bytes"  # f32 takes twice the registers
  tiles_m: "ceil_div(M, TILE_M)"
  tiles_n: "ceil_div(N, TILE_N)"
specialize: [dtype, aligned, STEP]
launch:
  - kernel: matmul_tiles
    grid: ["tiles_m * tiles_n", 1, 1]
    num_warps: WARPS
    num_stages: STAGES
    args: [a, b, c, M, N, K, tiles_m, tiles_n]
---"""
import triton
import triton.language as tl


@triton.jit
def matmul_tiles(a, b, c, M, N, K, tiles_m, tiles_n, TILE_M: tl.constexpr, TILE_N: tl.constexpr, STEP: tl.constexpr,
                 GROUP: tl.constexpr, DTYPE: tl.constexpr):
    tile = tl.program_id(0)
    group = tile // (GROUP * tiles_n)
    rows = tl.minimum(tiles_m - group * GROUP, GROUP)  # of tiles in this group
    within = tile % (GROUP * tiles_n)
    m = ((group * GROUP + within % rows) * TILE_M + tl.arange(0, TILE_M)).to(tl.int64)
    n = ((within // rows) * TILE_N + tl.arange(0, TILE_N)).to(tl.int64)
    k = tl.arange(0, STEP)
    from_a = a + m[:, None] * K + k[None, :]
    from_b = b + k[:, None].to(tl.int64) * N + n[None, :]
    total = tl.zeros([TILE_M, TILE_N], tl.float32)
    for start in range(0, K, STEP):
        left = tl.load(from_a, mask=(m[:, None] < M) & (start + k[None, :] < K), other=0.0)
        right = tl.load(from_b, mask=(start + k[:, None] < K) & (n[None, :] < N), other=0.0)
        total = tl.dot(left, right, total, input_precision="ieee")
        from_a += STEP
        from_b += tl.cast(N, tl.int64) * STEP
    tl.store(c + m[:, None] * N + n[None, :], total.to(DTYPE), mask=(m[:, None] < M) & (n[None, :] < N))
