/*--- cultivar
name: linear_stream_mma_cluster
task: linear
target: cuda
about: "128 rows of w x all tokens per block; cp.async ring, ldmatrix, mma.sync m16n8k16; K split over a cluster, parts added in distributed shared memory in a fixed order."
requires: "dtype == bf16 || dtype == f16"
tunables:
  STAGES: {values: [3, 4, 5], default: 3}
  SLOTS: {values: [2, 3, 6], default: 3}  # blocks per multiprocessor up to which K is split
specialize: [M, K, dtype]
constraints: ["smem <= smem_max"]
let:
  tokens: "M <= 8 ? 8 : (M <= 16 ? 16 : (M <= 32 ? 32 : 64))"
  tiles: "ceil_div(N, 128) * ceil_div(M, tokens)"
  split: "K < 512 ? 1 : (tiles * 8 <= SLOTS * num_sms ? 8 : (tiles * 4 <= SLOTS * num_sms ? 4 : (tiles * 2 <= SLOTS * num_sms ? 2 : 1)))"
  smem: "STAGES * (128 + tokens) * 128"
launch:
  - kernel: linear
    grid: ["ceil_div(N, 128) * split", "ceil_div(M, tokens)", 1]
    block: [128, 1, 1]
    cluster: [split, 1, 1]
    shared: smem
    args: [x, w, bias, y, N, with_bias, gelu]
---*/

namespace {

using Element = unsigned short;

#if defined(DTYPE_F16)
#define MMA_TYPES "f32.f16.f16.f32"
__device__ __forceinline__ float widened(Element v) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(v));
  return f;
}
__device__ __forceinline__ Element narrowed(float v) {
  Element r;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(v));
  return r;
}
#else
#define MMA_TYPES "f32.bf16.bf16.f32"
__device__ __forceinline__ float widened(Element v) {
  return __uint_as_float(static_cast<unsigned>(v) << 16);
}
__device__ __forceinline__ Element narrowed(float v) {
  Element r;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r) : "f"(v));
  return r;
}
#endif

enum : int {
  kRowsX = M,
  kDepth = K,
  kTokens = kRowsX <= 8 ? 8 : kRowsX <= 16 ? 16 : kRowsX <= 32 ? 32 : 64,
  kColumns = 128,                       // rows of w of a block
  kChunk = 64,                          // of K: 128 bytes
  kChunks = (kDepth + kChunk - 1) / kChunk,
  kBytesW = kColumns * 128,
  kStage = kBytesW + kTokens * 128,
  kGroups = kTokens / 8,
  kPitch = kColumns + 4,                // of the parts, f32
  kAligned = kDepth % 8 == 0
};
static_assert(kTokens * kPitch * 4 <= STAGES * kStage, "the parts fit");

__device__ __forceinline__ unsigned swizzled(int row, int part) {  // part: 16 bytes of a row of 128
  return static_cast<unsigned>(row * 128 + ((part ^ (row & 7)) << 4));
}

// 16 bytes, or zeros.
__device__ __forceinline__ void fetch_part(unsigned to, const Element* matrix, int row, int rows, int k) {
  if constexpr (kAligned) {
    const bool inside = row < rows && k < kDepth;
    const Element* const from = inside ? matrix + static_cast<long long>(row) * kDepth + k : matrix;
    const int bytes = inside ? 16 : 0;
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
  } else {
    unsigned words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      unsigned a = 0, b = 0;
      if (row < rows && k + 2 * i < kDepth) a = matrix[static_cast<long long>(row) * kDepth + k + 2 * i];
      if (row < rows && k + 2 * i + 1 < kDepth) b = matrix[static_cast<long long>(row) * kDepth + k + 2 * i + 1];
      words[i] = a | b << 16;
    }
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(words[0]), "r"(words[1]), "r"(words[2]),
                 "r"(words[3]) : "memory");
  }
}

__device__ __forceinline__ void load_4(unsigned (&v)[4], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3]) : "r"(address) : "memory");
}
__device__ __forceinline__ void load_2(unsigned& a, unsigned& b, unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(a), "=r"(b) : "r"(address) : "memory");
}
__device__ __forceinline__ void multiply(float (&c)[4], const unsigned (&a)[4], unsigned b_0, unsigned b_1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col." MMA_TYPES " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b_0), "r"(b_1));
}

}  // namespace

extern "C" __global__ void __launch_bounds__(128, 3)
    linear(const Element* x, const Element* w, const Element* bias, Element* y, int N, int with_bias, int gelu) {
  extern __shared__ __align__(1024) unsigned char memory[];
  const unsigned base = static_cast<unsigned>(__cvta_generic_to_shared(memory));
  int rank, split;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(split));
  const int thread = threadIdx.x, lane = thread & 31, warp = thread >> 5;
  const int left = static_cast<int>(blockIdx.x) / split * kColumns, top = blockIdx.y * kTokens;
  const int begin = kChunks * rank / split, count = kChunks * (rank + 1) / split - begin;

  const auto fetch = [&](int chunk, int stage) {
    const unsigned to = base + stage * kStage;
    const int k = (begin + chunk) * kChunk + (thread & 7) * 8;
#pragma unroll
    for (int i = 0; i < kColumns / 16; ++i) {
      const int row = i * 16 + (thread >> 3);
      fetch_part(to + swizzled(row, thread & 7), w, left + row, N, k);
    }
#pragma unroll
    for (int i = 0; i < (kTokens + 15) / 16; ++i) {
      const int row = i * 16 + (thread >> 3);
      if (row < kTokens) fetch_part(to + kBytesW + swizzled(row, thread & 7), x, top + row, kRowsX, k);
    }
  };
  const auto commit = [] { asm volatile("cp.async.commit_group;" ::: "memory"); };

  float sums[2][kGroups][4] = {};
#pragma unroll
  for (int s = 0; s < STAGES - 1; ++s) {
    if (s < count) fetch(s, s);
    commit();
  }
  int stage = 0, next = STAGES - 1;
  for (int chunk = 0; chunk < count; ++chunk) {
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
    __syncthreads();  // the chunk is there for all, and the stage before it has been read by all
    if (chunk + STAGES - 1 < count) fetch(chunk + STAGES - 1, next);
    commit();
    const unsigned of_w = base + stage * kStage, of_x = of_w + kBytesW;
#pragma unroll
    for (int step = 0; step < kChunk / 16; ++step) {
      unsigned a[2][4];
#pragma unroll
      for (int i = 0; i < 2; ++i) load_4(a[i], of_w + swizzled(warp * 32 + i * 16 + (lane & 15), step * 2 + (lane >> 4)));
      if constexpr (kGroups == 1) {
        unsigned b_0, b_1;
        load_2(b_0, b_1, of_x + swizzled(lane & 7, step * 2 + ((lane >> 3) & 1)));
        multiply(sums[0][0], a[0], b_0, b_1);
        multiply(sums[1][0], a[1], b_0, b_1);
      } else {
#pragma unroll
        for (int g = 0; g + 1 < kGroups; g += 2) {
          unsigned b[4];
          load_4(b, of_x + swizzled(g * 8 + (lane >> 4) * 8 + (lane & 7), step * 2 + ((lane >> 3) & 1)));
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            multiply(sums[i][g], a[i], b[0], b[1]);
            multiply(sums[i][g + 1], a[i], b[2], b[3]);
          }
        }
      }
    }
    stage = stage + 1 == STAGES ? 0 : stage + 1;
    next = next + 1 == STAGES ? 0 : next + 1;
  }

  // The parts of the cluster's blocks: [token][column], f32, in place of the stages.
  asm volatile("cp.async.wait_group 0;" ::: "memory");
  __syncthreads();
  float* const parts = reinterpret_cast<float*>(memory);
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int g = 0; g < kGroups; ++g)
#pragma unroll
      for (int n = 0; n < 4; ++n)
        parts[(g * 8 + (lane & 3) * 2 + (n & 1)) * kPitch + warp * 32 + i * 16 + (lane >> 2) + (n >> 1) * 8] = sums[i][g][n];
  if (split > 1)
    asm volatile("barrier.cluster.arrive.release;\n\tbarrier.cluster.wait.acquire;" ::: "memory");
  else
    __syncthreads();

  const int column = left + thread;
  const float shift = with_bias && column < N ? widened(bias[column]) : 0.0f;
  for (int row = rank; row < kTokens && top + row < kRowsX; row += split) {
    const unsigned mine = base + static_cast<unsigned>(row * kPitch + thread) * 4;
    float of_block[8];
#pragma unroll
    for (int q = 0; q < 8; ++q) {
      of_block[q] = 0.0f;
      if (q < split) {
        unsigned there;
        asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(mine), "r"(q));
        asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(of_block[q]) : "r"(there) : "memory");
      }
    }
    float v = ((of_block[0] + of_block[1]) + (of_block[2] + of_block[3])) +
              ((of_block[4] + of_block[5]) + (of_block[6] + of_block[7])) + shift;
    if (gelu) v = 0.5f * v * (1.0f + tanhf(0.797884561f * (v + 0.044715f * v * v * v)));
    if (column < N) y[static_cast<long long>(top + row) * N + column] = narrowed(v);
  }
  if (split > 1)  // nobody leaves while its part is read
    asm volatile("barrier.cluster.arrive.release;\n\tbarrier.cluster.wait.acquire;" ::: "memory");
}
