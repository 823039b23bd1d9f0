/*--- cultivar
name: attention_mma
task: attention_forward
target: cuda
about: "Tiles of K and V through cp.async into swizzled shared memory; mma.sync and online softmax in registers."
requires: "dtype != f32 && (D == 64 || D == 128 || D == 256) && scale > 0"
tunables:
  WARPS: {values: [4, 8], default: 4}
  STRIPS: {values: [1, 2], default: 2}  # of 16 queries, of a warp (1 where D is 256): they share fragments of K and V
  BLOCK_N: {values: [32, 48, 64, 96, 128], default: 32}  # keys in a tile
  STAGES: {values: [2, 3], default: 2}  # tiles of K and V in shared memory
  KEEP_Q: {values: [0, 1], default: 0}  # queries stay in registers
constraints:
  - "smem <= smem_max"
  - "strips * (D / 2 + BLOCK_N / 2 + (KEEP_Q ? D / 4 : 0)) + 80 <= min(255, registers_max / (32 * WARPS))"
specialize: [D, causal, dtype, windowed, capped]
let:
  windowed: "window > 0"
  capped: "softcap > 0"
  span: "min(window, S_q + S_kv)"  # a wider window hides nothing
  strips: "D == 256 ? 1 : STRIPS"
  block_m: "16 * strips * WARPS"
  smem: "(block_m + 2 * STAGES * BLOCK_N) * D * 2"
  m_blocks: "ceil_div(S_q, block_m)"
launch:
  - kernel: attention_forward
    grid: [B * H * m_blocks, 1, 1]
    block: [32 * WARPS, 1, 1]
    shared: smem
    args: [q, k, v, o, lse, H, H_kv, S_q, S_kv, m_blocks, scale, span, softcap]
---*/

// Shared tiles have rows of D elements; of the 16-byte chunks of a row, number c lies at c ^ (row % 8), so that
// ldmatrix meets no bank twice. Tiles of keys go from the last seen to the first: only those at the edges of the mask
// and of the window are masked.
// Copies are committed as K, V, K, V, ...: a wait for one leaves those behind it in flight.

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
  kWindow = windowed,
  kCapped = capped,
  kStrips = kHead == 256 ? 1 : STRIPS,
  kQueries = 16 * kStrips * WARPS,
  kThreads = 32 * WARPS,
  kChunks = kHead / 8,
  kRowBytes = kHead * 2,
  kTile = BLOCK_N * kRowBytes
};

__device__ __forceinline__ float minus_infinity() {
  return __int_as_float(0xff800000);
}

__device__ __forceinline__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// tanh to 6e-7 of its value, as a quotient of polynomials: tanh.approx is off by 5e-4, and 1 - 2 / (1 + exp(2 x)) loses
// digits near 0. Beyond 7.9 it is constant. NaN stays NaN.
__device__ __forceinline__ float tanh_fast(float x) {
  asm("{ .reg .f32 t; max.NaN.f32 t, %0, %1; min.NaN.f32 %0, t, %2; }" : "+f"(x) : "f"(-7.9f), "f"(7.9f));
  const float y = x * x;
  const float above = fmaf(fmaf(fmaf(1.1531775e-5f, y, 2.9604669e-3f), y, 0.12934411f), y, 0.99999987f);
  const float below =
      fmaf(fmaf(fmaf(fmaf(2.4925284e-7f, y, 2.4001118e-4f), y, 2.3854056e-2f), y, 0.46267638f), y, 1.0f);
  float inverse;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(below));
  return x * above * inverse;
}

__device__ __forceinline__ u32 pack(float low, float high) {
  u32 both;
  asm("cvt.rn." TYPE "x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}

__device__ __forceinline__ u32 chunk_at(u32 tile, int row, int chunk) {
  return tile + row * kRowBytes + ((chunk ^ (row % 8)) * 16);
}

// Rows first .. first + rows - 1 of one head; zeros where there is no such row.
template <int rows>
__device__ __forceinline__ void copy_tile(u32 tile, const uint4* from, long long stride, int first, int end) {
  const int chunk = threadIdx.x % kChunks;
  const uint4* source = from + (first + static_cast<int>(threadIdx.x / kChunks)) * stride + chunk;
#pragma unroll 1  // unrolled, the addresses of all the rows would take registers from the products
  for (int row = threadIdx.x / kChunks; row < rows; row += kThreads / kChunks) {
    const bool there = first + row < end;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(chunk_at(tile, row, chunk)),
                 "l"(there ? source : from), "r"(there ? 16 : 0)
                 : "memory");
    source += kThreads / kChunks * stride;
  }
}

__device__ __forceinline__ void copies_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int pending>
__device__ __forceinline__ void copies_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
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

// 16 queries of a warp. Of 8 columns a thread has two in each of two rows (8 apart): 4 numbers.
struct Strip {
  float o[kHead / 2] = {};
  float top[2] = {minus_infinity(), minus_infinity()}, sum[2] = {};
  int from[2], to[2];  // the keys that a thread's two queries see (`from` only with a window)

  // Logits to weights, and what came before is rescaled. A row that has seen no key yet gets weights of 0.
  __device__ __forceinline__ void soften(float (&s)[BLOCK_N / 2], bool masked, int first_key, float scale,
                                         float cap_scale) {
    if (kCapped) {
#pragma unroll
      for (int j = 0; j < BLOCK_N / 2; ++j) s[j] = tanh_fast(s[j] * cap_scale);
    }
    if (masked) {
#pragma unroll
      for (int j = 0; j < BLOCK_N / 2; ++j) {
        const int key = first_key + j / 4 * 8 + j % 2, r = j / 2 % 2;
        if (key >= to[r] || (kWindow && key < from[r])) s[j] = minus_infinity();
      }
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float high = top[r];
#pragma unroll
      for (int j = 0; j < BLOCK_N / 8; ++j) high = fmaxf(high, fmaxf(s[4 * j + 2 * r], s[4 * j + 2 * r + 1]));
      high = fmaxf(high, __shfl_xor_sync(0xffffffffu, high, 1));
      high = fmaxf(high, __shfl_xor_sync(0xffffffffu, high, 2));
      // Differences are scaled, not logits, whose products may be rounded by more than 1.
      const float base = high == minus_infinity() ? 0.0f : high;
      const float shrink = exp2_fast((top[r] - base) * scale);
      top[r] = high;
      float part = 0.0f;
#pragma unroll
      for (int i = 0; i < kHead / 8; ++i) o[4 * i + 2 * r] *= shrink, o[4 * i + 2 * r + 1] *= shrink;
#pragma unroll
      for (int j = 0; j < BLOCK_N / 8; ++j)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& x = s[4 * j + 2 * r + e];
          x = exp2_fast((x - base) * scale);
          part += x;
        }
      sum[r] = fmaf(sum[r], shrink, part);
    }
  }
};

// A transposition of 2 by 2 between lanes that differ in `bit`.
__device__ __forceinline__ void exchange(u32& low, u32& high, bool upper, int bit) {
  const u32 got = __shfl_xor_sync(0xffffffffu, upper ? low : high, bit);
  if (upper)
    low = got;
  else
    high = got;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads)
    attention_forward(const uint4* q, const uint4* k, const uint4* v, uint4* o, float* lse, int H, int H_kv,
                      int S_q, int S_kv, int m_blocks, float scale, int window, float softcap) {
  extern __shared__ uint4 shared[];
  const u32 queries = static_cast<u32>(__cvta_generic_to_shared(shared)),
            keys = queries + kQueries * kRowBytes;
  const u32 values = keys + STAGES * kTile;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int bh = blockIdx.x / m_blocks, b = bh / H, h = bh - b * H;
  const int first = (m_blocks - 1 - static_cast<int>(blockIdx.x % m_blocks)) * kQueries;
  const long long q_stride = static_cast<long long>(H) * kChunks,
                  kv_stride = static_cast<long long>(H_kv) * kChunks;
  const long long q_at = (static_cast<long long>(b) * S_q * H + h) * kChunks;
  const long long kv_at = (static_cast<long long>(b) * S_kv * H_kv + h / (H / H_kv)) * kChunks;
  const float scale2 = (kCapped ? softcap : scale) * 1.44269504f;  // for powers of two
  const float cap_scale = kCapped ? scale / softcap : 0.0f;        // logits to multiples of the cap
  // Query i sees the keys from i + start on, if there is a window, and before i + stop, with the mask or a window.
  const int start = S_kv - S_q - window + 1, stop = S_kv - S_q + (kMasked ? 1 : window);
  const int mine = first + 16 * kStrips * warp;  // this warp's first query

  int begin = 0, end = S_kv;
  int open = 0, clear = S_kv / BLOCK_N;  // from `open` on and below `clear`, tiles need no mask for this warp
  if (kMasked || kWindow) {
    end = max(0, min(end, min(first + kQueries, S_q) - 1 + stop));
    clear = min(clear, max(0, mine + stop) / BLOCK_N);
  }
  if (kWindow) {
    begin = min(end, max(0, first + start)) / BLOCK_N;
    open = (max(0, mine + 16 * kStrips - 1 + start) + BLOCK_N - 1) / BLOCK_N;
  }
  const int blocks = (end + BLOCK_N - 1) / BLOCK_N - begin;
  const auto first_key = [&](int i) { return (begin + blocks - 1 - i) * BLOCK_N; };
  const auto copy_keys = [&](int i) {
    if (i < blocks) copy_tile<BLOCK_N>(keys + i % STAGES * kTile, k + kv_at, kv_stride, first_key(i), S_kv);
    copies_commit();
  };
  const auto copy_values = [&](int i) {
    if (i < blocks) copy_tile<BLOCK_N>(values + i % STAGES * kTile, v + kv_at, kv_stride, first_key(i), S_kv);
    copies_commit();
  };

  copy_tile<kQueries>(queries, q + q_at, q_stride, first, S_q);
  for (int i = 0; i < STAGES - 1; ++i) copy_keys(i), copy_values(i);

  Strip strips[kStrips];
#pragma unroll
  for (int t = 0; t < kStrips; ++t)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = mine + 16 * t + 8 * r + lane / 4;
      if (kWindow) strips[t].from[r] = row + start;
      strips[t].to[r] = kMasked || kWindow ? min(S_kv, row + stop) : S_kv;
    }

  // Where this lane points ldmatrix: rows of queries (and of V, which is transposed), rows of keys.
  const int a_row = lane % 16, a_chunk = lane / 16, k_row = lane / 16 * 8 + lane % 8, k_chunk = lane / 8 % 2;
  const auto load_queries = [&](u32(&a)[4], int t, int step) {
    load_matrices(a, chunk_at(queries, 16 * (kStrips * warp + t) + a_row, 2 * step + a_chunk));
  };
#if KEEP_Q
  u32 kept[kStrips][kHead / 16][4];
#endif

#pragma unroll 1
  for (int i = 0; i < blocks; ++i) {
    copies_wait<2 * STAGES - 3>();
    __syncthreads();  // K is here, and the buffers of the tile before are free
    copy_keys(i + STAGES - 1);
    copy_values(i + STAGES - 1);
#if KEEP_Q
    if (i == 0) {
#pragma unroll
      for (int t = 0; t < kStrips; ++t)
#pragma unroll
        for (int step = 0; step < kHead / 16; ++step) load_queries(kept[t][step], t, step);
    }
#endif
    float s[kStrips][BLOCK_N / 2] = {};
    const u32 key_tile = keys + i % STAGES * kTile, value_tile = values + i % STAGES * kTile;
#pragma unroll
    for (int step = 0; step < kHead / 16; ++step) {
#if KEEP_Q
      auto& a = kept;
#define QUERIES_OF(t) a[t][step]
#else
      u32 a[kStrips][4];
#define QUERIES_OF(t) a[t]
#pragma unroll
      for (int t = 0; t < kStrips; ++t) load_queries(a[t], t, step);
#endif
#pragma unroll
      for (int n = 0; n < BLOCK_N / 16; ++n) {
        u32 x[4];
        load_matrices(x, chunk_at(key_tile, 16 * n + k_row, 2 * step + k_chunk));
#pragma unroll
        for (int t = 0; t < kStrips; ++t) {
          multiply(s[t] + 8 * n, QUERIES_OF(t), x[0], x[1]);
          multiply(s[t] + 8 * n + 4, QUERIES_OF(t), x[2], x[3]);
        }
      }
    }
    const int block = begin + blocks - 1 - i;
#pragma unroll
    for (int t = 0; t < kStrips; ++t)
      strips[t].soften(s[t], block >= clear || (kWindow && block < open), block * BLOCK_N + lane % 4 * 2,
                       scale2, cap_scale);
    copies_wait<2 * STAGES - 2>();
    __syncthreads();  // V is here
#pragma unroll
    for (int step = 0; step < BLOCK_N / 16; ++step) {
      u32 p[kStrips][4];
#pragma unroll
      for (int t = 0; t < kStrips; ++t)
#pragma unroll
        for (int e = 0; e < 4; ++e) p[t][e] = pack(s[t][8 * step + 2 * e], s[t][8 * step + 2 * e + 1]);
#pragma unroll
      for (int n = 0; n < kHead / 16; ++n) {
        u32 x[4];
        load_transposed(x, chunk_at(value_tile, 16 * step + a_row, 2 * n + a_chunk));
#pragma unroll
        for (int t = 0; t < kStrips; ++t) {
          multiply(strips[t].o + 8 * n, p[t], x[0], x[1]);
          multiply(strips[t].o + 8 * n + 4, p[t], x[2], x[3]);
        }
      }
    }
  }
  copies_wait<0>();

  // Four threads share a row, 2 elements of every 8; they swap until each has 8 in a row.
  const int quarter = lane % 4;
#pragma unroll
  for (int t = 0; t < kStrips; ++t)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const Strip& strip = strips[t];
      const int row = mine + 16 * t + 8 * r + lane / 4;
      float sum = strip.sum[r];
      sum += __shfl_xor_sync(0xffffffffu, sum, 1);
      sum += __shfl_xor_sync(0xffffffffu, sum, 2);
      const bool none = strip.top[r] == minus_infinity();
      const float factor = none ? 0.0f : 1.0f / sum;
#pragma unroll
      for (int i = 0; i < kHead / 32; ++i) {
        u32 x[4];
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int at = 16 * i + 4 * e + 2 * r;
          x[e] = pack(strip.o[at] * factor, strip.o[at + 1] * factor);
        }
        exchange(x[0], x[1], quarter & 1, 1);
        exchange(x[2], x[3], quarter & 1, 1);
        exchange(x[0], x[2], quarter & 2, 2);
        exchange(x[1], x[3], quarter & 2, 2);
        if (row < S_q) o[q_at + row * q_stride + 4 * i + quarter] = make_uint4(x[0], x[1], x[2], x[3]);
      }
      if (quarter == 0 && row < S_q)
        lse[static_cast<long long>(bh) * S_q + row] =
            none ? minus_infinity() : (__fmul_rn(strip.top[r], scale2) + log2f(sum)) * 0.693147181f;
    }
}
