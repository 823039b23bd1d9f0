/*--- cultivar
name: attention_backward_mma
task: attention_backward
target: cuda
about: "A block owns a tile of keys and walks over the queries: P and DS stay in registers for dv and dk (mma.sync), and dq is added up by f32 atomics in the order of the fragments; a last kernel rounds it."
requires: "dtype != f32 && (D == 64 || D == 128)"
tunables:
  WARPS: {values: [4, 8], default: 8}          # of 16 keys each
  BLOCK_M: {values: [32, 64], default: 64}     # queries of a tile
  STRIP: {values: [16, 32], default: 32}       # queries whose P and DS are in registers together
  STAGES: {values: [1, 2], default: 2}         # tiles of Q and DO in shared memory
constraints:
  - "smem <= smem_max"
  - "BLOCK_M / 16 <= WARPS"
specialize: [D, causal, dtype]
let:
  block_n: "16 * WARPS"
  m_blocks: "ceil_div(S_q, BLOCK_M)"
  n_blocks: "ceil_div(S_kv, block_n)"
  smem: "2 * D * (2 * block_n + 2 * STAGES * BLOCK_M) + 2 * block_n * BLOCK_M + 8 * STAGES * BLOCK_M"
workspace:
  stats: {bytes: "8 * B * H * m_blocks * BLOCK_M"}               # of each query: lse * log2(e) and delta
  sums: {bytes: "4 * B * H * m_blocks * BLOCK_M * D", zero: true} # of dq
launch:
  - kernel: prepare
    grid: ["B * H * m_blocks", 1, 1]
    block: [256, 1, 1]
    args: [o, lse, grad_o, stats, H, S_q, m_blocks]
  - kernel: attention_backward
    grid: ["B * H_kv * n_blocks", 1, 1]
    block: [32 * WARPS, 1, 1]
    shared: smem
    args: [q, k, v, grad_o, stats, sums, dk, dv, H, H_kv, S_q, S_kv, m_blocks, n_blocks, scale]
  - kernel: finish
    grid: ["B * H * m_blocks", 1, 1]
    block: [256, 1, 1]
    args: [sums, dq, H, S_q, m_blocks, scale]
---*/

// Shared tiles have rows of D (or BLOCK_M) elements; of the 16-byte chunks of a row, number c lies at c ^ (row % 8)
// (c ^ (row / 2 % 4) where a row has only 4 chunks), so that ldmatrix meets no bank twice. A warp has 16 keys:
//
//   S^T = K Q^T, DP^T = V DO^T          registers: keys by queries
//   P^T, DS^T = P^T * (DP^T - delta)    the accumulators of a product are the left factor of the next one
//   DV += P^T DO, DK += DS^T Q          registers, until the last query
//   DQ += DS K                          DS through shared memory, DQ by atomics
//
// A query that is not there or sees nothing has a base of +inf, so that its P is 0.

#ifdef DTYPE_BF16
#define TYPE "bf16"
#else
#define TYPE "f16"
#endif

using u32 = unsigned;

namespace {

// An enum, because NVRTC would make writable device globals of constants.
enum : int {
  kHead = D,
  kMasked = causal,
  kKeys = 16 * WARPS,
  kThreads = 32 * WARPS,
  kChunks = kHead / 8,
  kRowBytes = kHead * 2,
  kKeyTile = kKeys * kRowBytes,
  kQueryTile = BLOCK_M * kRowBytes,
  kColumnParts = WARPS / (BLOCK_M / 16),  // of dq: a warp has 16 queries and one of these parts of the head
  kColumns = kHead / kColumnParts,
  kValuesAt = kKeyTile,
  kQueriesAt = 2 * kKeyTile,
  kGradientsAt = kQueriesAt + STAGES * kQueryTile,
  kWeightsAt = kGradientsAt + STAGES * kQueryTile,
  kStatsAt = kWeightsAt + kKeys * BLOCK_M * 2
};

// --- Instructions.

__device__ __forceinline__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ u32 pack(float low, float high) {
  u32 both;
  asm("cvt.rn." TYPE "x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}

__device__ __forceinline__ float2 unpack(u32 both) {
#ifdef DTYPE_BF16
  return make_float2(__uint_as_float(both << 16), __uint_as_float(both & 0xffff0000u));
#else
  float low, high;
  asm("{.reg .b16 a, b; mov.b32 {a, b}, %2; cvt.f32.f16 %0, a; cvt.f32.f16 %1, b;}"
      : "=f"(low), "=f"(high)
      : "r"(both));
  return make_float2(low, high);
#endif
}

__device__ __forceinline__ void copy_chunk(u32 to, const void* from, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(there ? 16 : 0) : "memory");
}

__device__ __forceinline__ void copies_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

__device__ __forceinline__ void copies_wait() {
  asm volatile("cp.async.wait_group 0;" ::: "memory");
}

__device__ __forceinline__ void load_matrices(u32 (&x)[4], u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(address)
               : "memory");
}

__device__ __forceinline__ void load_transposed(u32 (&x)[4], u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(address)
               : "memory");
}

__device__ __forceinline__ void multiply(float* c, const u32* a, u32 b0, u32 b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." TYPE "." TYPE
               ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ void store_shared(u32 address, u32 x) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(address), "r"(x) : "memory");
}

__device__ __forceinline__ float4 load_shared(u32 address) {
  float4 x;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
               : "r"(address)
               : "memory");
  return x;
}

__device__ __forceinline__ void add_global(float* to, const float* x) {
  asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3])
               : "memory");
}

__device__ __forceinline__ u32 shared_address(const void* p) {
  return static_cast<u32>(__cvta_generic_to_shared(p));
}

// --- Tiles.

__device__ __forceinline__ u32 chunk_at(u32 tile, int row, int chunk) {
  return tile + row * kRowBytes + ((chunk ^ (row % 8)) * 16);
}

// DS^T: rows of BLOCK_M queries.
__device__ __forceinline__ u32 weight_chunk(u32 tile, int row, int chunk) {
  const int swizzle = BLOCK_M == 64 ? row % 8 : row / 2 % 4;
  return tile + row * (BLOCK_M * 2) + ((chunk ^ swizzle) * 16);
}

// Rows first .. first + rows - 1 of one head; zeros where there is no such row.
template <int rows>
__device__ __forceinline__ void copy_tile(u32 tile, const uint4* from, long long stride, int first, int end) {
  const int chunk = threadIdx.x % kChunks;
  const uint4* source = from + (first + static_cast<int>(threadIdx.x / kChunks)) * stride + chunk;
#pragma unroll 1  // unrolled, the addresses of all the rows would take registers from the products
  for (int row = threadIdx.x / kChunks; row < rows; row += kThreads / kChunks) {
    const bool there = first + row < end;
    copy_chunk(chunk_at(tile, row, chunk), there ? source : from, there);
    source += kThreads / kChunks * stride;
  }
}

// A transposition of 2 by 2 between lanes that differ in `bit`.
__device__ __forceinline__ void exchange(u32& low, u32& high, bool upper, int bit) {
  const u32 got = __shfl_xor_sync(0xffffffffu, upper ? low : high, bit);
  if (upper)
    low = got;
  else
    high = got;
}

// 16 rows of the head, of which a thread has rows lane / 4 and 8 below it. Four threads share a row, 2 elements of
// every 8; they swap until each has 8 in a row. `to`: the first of the 16 rows.
__device__ __forceinline__ void store_rows(uint4* to, long long stride, int rows, const float (&x)[kHead / 2],
                                           float factor) {
  const int lane = threadIdx.x % 32, quarter = lane % 4;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = lane / 4 + 8 * r;
#pragma unroll
    for (int i = 0; i < kHead / 32; ++i) {
      u32 y[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int at = 16 * i + 4 * e + 2 * r;
        y[e] = pack(x[at] * factor, x[at + 1] * factor);
      }
      exchange(y[0], y[1], quarter & 1, 1);
      exchange(y[2], y[3], quarter & 1, 1);
      exchange(y[0], y[2], quarter & 2, 2);
      exchange(y[1], y[3], quarter & 2, 2);
      if (row < rows) to[row * stride + 4 * i + quarter] = make_uint4(y[0], y[1], y[2], y[3]);
    }
  }
}

}  // namespace

// delta of each query, and its lse for powers of two. A block has BLOCK_M queries of a head.
extern "C" __global__ void __launch_bounds__(256)
    prepare(const uint4* o, const float* lse, const uint4* grad, float2* stats, int H, int S_q, int m_blocks) {
  const int bh = blockIdx.x / m_blocks, b = bh / H, h = bh - b * H, block = blockIdx.x % m_blocks;
  const int chunk = threadIdx.x % kChunks;
  for (int row = threadIdx.x / kChunks; row < BLOCK_M; row += 256 / kChunks) {
    const int i = block * BLOCK_M + row;
    float delta = 0.0f;
    if (i < S_q) {
      const long long at = ((static_cast<long long>(b) * S_q + i) * H + h) * kChunks + chunk;
      const uint4 x = o[at], y = grad[at];
      const u32 left[4] = {x.x, x.y, x.z, x.w}, right[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float2 l = unpack(left[e]), r = unpack(right[e]);
        delta = fmaf(l.x, r.x, fmaf(l.y, r.y, delta));
      }
    }
#pragma unroll
    for (int bit = kChunks / 2; bit > 0; bit /= 2) delta += __shfl_xor_sync(0xffffffffu, delta, bit);
    if (chunk != 0) continue;
    const float infinity = __int_as_float(0x7f800000);
    const float base = i < S_q ? lse[static_cast<long long>(bh) * S_q + i] : -infinity;
    stats[static_cast<long long>(blockIdx.x) * BLOCK_M + row] =
        make_float2(base == -infinity ? infinity : base * 1.44269504f, delta);
  }
}

extern "C" __global__ void __launch_bounds__(kThreads)
    attention_backward(const uint4* q, const uint4* k, const uint4* v, const uint4* grad, const float2* stats,
                       float* sums, uint4* dk, uint4* dv, int H, int H_kv, int S_q, int S_kv, int m_blocks,
                       int n_blocks, float scale) {
  extern __shared__ uint4 shared[];
  const u32 memory = shared_address(shared);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int bh = blockIdx.x / n_blocks, b = bh / H_kv, hk = bh - b * H_kv;
  const int first_key = static_cast<int>(blockIdx.x % n_blocks) * kKeys, group = H / H_kv;
  const int shift = S_kv - S_q;  // query i sees the keys up to i + shift
  const long long q_stride = static_cast<long long>(H) * kChunks, kv_stride = static_cast<long long>(H_kv) * kChunks;
  const long long kv_at = (static_cast<long long>(b) * S_kv * H_kv + hk) * kChunks;
  const float scale2 = scale * 1.44269504f;

  const int begin = kMasked ? min(m_blocks, max(0, first_key - shift) / BLOCK_M) : 0;
  const int blocks = m_blocks - begin, steps = blocks * group;
  const auto copy_step = [&](int step) {
    if (step < steps) {
      const int h = hk * group + step / blocks, block = begin + step % blocks, stage = step % STAGES;
      const long long at = (static_cast<long long>(b) * S_q * H + h) * kChunks;
      copy_tile<BLOCK_M>(memory + kQueriesAt + stage * kQueryTile, q + at, q_stride, block * BLOCK_M, S_q);
      copy_tile<BLOCK_M>(memory + kGradientsAt + stage * kQueryTile, grad + at, q_stride, block * BLOCK_M, S_q);
      const float2* const from = stats + ((static_cast<long long>(b) * H + h) * m_blocks + block) * BLOCK_M;
      if (threadIdx.x < BLOCK_M / 2)
        copy_chunk(memory + kStatsAt + (stage * BLOCK_M / 2 + threadIdx.x) * 16, from + 2 * threadIdx.x, true);
    }
    copies_commit();
  };
  copy_tile<kKeys>(memory, k + kv_at, kv_stride, first_key, S_kv);
  copy_tile<kKeys>(memory + kValuesAt, v + kv_at, kv_stride, first_key, S_kv);
  copy_step(0);

  // Where this lane points ldmatrix: rows of a left factor (and of a right one that is transposed), rows of a right one.
  const int a_row = lane % 16, a_chunk = lane / 16, b_row = lane / 16 * 8 + lane % 8, b_chunk = lane / 8 % 2;
  const int column = lane % 4 * 2;
  float dk_sum[kHead / 2] = {}, dv_sum[kHead / 2] = {};

#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    const int stage = step % STAGES, block = begin + step % blocks;
    const u32 queries = memory + kQueriesAt + stage * kQueryTile, gradients = memory + kGradientsAt + stage * kQueryTile;
    copies_wait();
    __syncthreads();  // the tiles are here, and the others of the step before are free
    if (STAGES == 2) copy_step(step + 1);
    // Whether some pair of this tile must be left out.
    const bool masked = first_key + kKeys > S_kv || (kMasked && first_key + kKeys - 1 > block * BLOCK_M + shift);
    const int key = first_key + 16 * warp + lane / 4;
#pragma unroll 1
    for (int strip = 0; strip < BLOCK_M; strip += STRIP) {
      float s[STRIP / 2] = {}, dp[STRIP / 2] = {};
#pragma unroll
      for (int inner = 0; inner < kHead / 16; ++inner) {
        u32 a[4], x[4];
        load_matrices(a, chunk_at(memory, 16 * warp + a_row, 2 * inner + a_chunk));
#pragma unroll
        for (int n = 0; n < STRIP / 16; ++n) {
          load_matrices(x, chunk_at(queries, strip + 16 * n + b_row, 2 * inner + b_chunk));
          multiply(s + 8 * n, a, x[0], x[1]);
          multiply(s + 8 * n + 4, a, x[2], x[3]);
        }
        load_matrices(a, chunk_at(memory + kValuesAt, 16 * warp + a_row, 2 * inner + a_chunk));
#pragma unroll
        for (int n = 0; n < STRIP / 16; ++n) {
          load_matrices(x, chunk_at(gradients, strip + 16 * n + b_row, 2 * inner + b_chunk));
          multiply(dp + 8 * n, a, x[0], x[1]);
          multiply(dp + 8 * n + 4, a, x[2], x[3]);
        }
      }
#pragma unroll
      for (int n = 0; n < STRIP / 8; ++n) {
        const int at = strip + 8 * n + column;
        const float4 stat = load_shared(memory + kStatsAt + (stage * BLOCK_M + at) * 8);
        const float base[2] = {stat.x, stat.z}, delta[2] = {stat.y, stat.w};
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          float p = exp2_fast(fmaf(s[4 * n + e], scale2, -base[e % 2]));
          if (masked) {
            const int j = key + 8 * (e / 2), i = block * BLOCK_M + at + e % 2;
            if (j >= S_kv || (kMasked && j > i + shift)) p = 0.0f;
          }
          s[4 * n + e] = p;
          dp[4 * n + e] = p * (dp[4 * n + e] - delta[e % 2]);
        }
      }
#pragma unroll
      for (int n = 0; n < STRIP / 16; ++n) {
        u32 p[4], ds[4];
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          p[e] = pack(s[8 * n + 2 * e], s[8 * n + 2 * e + 1]);
          ds[e] = pack(dp[8 * n + 2 * e], dp[8 * n + 2 * e + 1]);
          // Of 8 queries a row of this thread has two, 4 bytes of a chunk.
          const int row = 16 * warp + lane / 4 + 8 * (e % 2), chunk = strip / 8 + 2 * n + e / 2;
          store_shared(weight_chunk(memory + kWeightsAt, row, chunk) + lane % 4 * 4, ds[e]);
        }
#pragma unroll
        for (int c = 0; c < kHead / 16; ++c) {
          u32 x[4];
          load_transposed(x, chunk_at(gradients, strip + 16 * n + a_row, 2 * c + a_chunk));
          multiply(dv_sum + 8 * c, p, x[0], x[1]);
          multiply(dv_sum + 8 * c + 4, p, x[2], x[3]);
          load_transposed(x, chunk_at(queries, strip + 16 * n + a_row, 2 * c + a_chunk));
          multiply(dk_sum + 8 * c, ds, x[0], x[1]);
          multiply(dk_sum + 8 * c + 4, ds, x[2], x[3]);
        }
      }
    }
    __syncthreads();  // DS is complete
    if (STAGES == 1) copy_step(step + 1);
    const int part = warp / (BLOCK_M / 16), strip = warp % (BLOCK_M / 16);
    float dq[kColumns / 2] = {};
#pragma unroll
    for (int inner = 0; inner < kKeys / 16; ++inner) {
      u32 a[4], x[4];
      load_transposed(a, weight_chunk(memory + kWeightsAt, 16 * inner + b_row, 2 * strip + b_chunk));
#pragma unroll
      for (int c = 0; c < kColumns / 16; ++c) {
        load_transposed(x, chunk_at(memory, 16 * inner + a_row, part * kColumns / 8 + 2 * c + a_chunk));
        multiply(dq + 8 * c, a, x[0], x[1]);
        multiply(dq + 8 * c + 4, a, x[2], x[3]);
      }
    }
    const int h = hk * group + step / blocks;
    float* const to = sums + ((static_cast<long long>(b) * H + h) * m_blocks + block) * (BLOCK_M * kHead);
#pragma unroll
    for (int n = 0; n < kColumns / 8; ++n) add_global(to + (n * kThreads + threadIdx.x) * 4, dq + 4 * n);
  }
  copies_wait();

  const int mine = first_key + 16 * warp;
  const long long at = kv_at + mine * kv_stride;
  store_rows(dk + at, kv_stride, S_kv - mine, dk_sum, scale);
  store_rows(dv + at, kv_stride, S_kv - mine, dv_sum, 1.0f);
}

// Sums of dq to the output; they lie as the warps' fragments.
extern "C" __global__ void __launch_bounds__(256)
    finish(const float* sums, uint4* dq, int H, int S_q, int m_blocks, float scale) {
  const int bh = blockIdx.x / m_blocks, b = bh / H, h = bh - b * H, block = blockIdx.x % m_blocks;
  const float* const from = sums + static_cast<long long>(blockIdx.x) * (BLOCK_M * kHead);
  const int chunk = threadIdx.x % kChunks, part = chunk / (kColumns / 8), n = chunk % (kColumns / 8);
  for (int row = threadIdx.x / kChunks; row < BLOCK_M; row += 256 / kChunks) {
    const int i = block * BLOCK_M + row;
    if (i >= S_q) return;
    const int warp = part * (BLOCK_M / 16) + row / 16, lane = row % 8 * 4;
    const float* const at = from + (n * kThreads + warp * 32 + lane) * 4 + row % 16 / 8 * 2;
    u32 x[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float2 two = *reinterpret_cast<const float2*>(at + 4 * e);
      x[e] = pack(two.x * scale, two.y * scale);
    }
    dq[((static_cast<long long>(b) * S_q + i) * H + h) * kChunks + chunk] = make_uint4(x[0], x[1], x[2], x[3]);
  }
}
