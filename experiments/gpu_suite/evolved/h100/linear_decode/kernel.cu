/*--- cultivar
name: linear_tma_mma_pairs
task: linear
target: cuda
about: "TMA ring in shared memory, ldmatrix and mma.sync: tokens are A, 8-row blocks of w are B; equal tiles in units of 8 rows, K of a stage split over warps, x multicast in pairs of blocks."
requires: "dtype == bf16"
tunables:
  RING: {values: [128, 168, 208], default: 128}          # KB of shared memory
  PAIR_FROM: {values: [16, 32, 64, 128], default: 128}    # tokens from which two blocks share their copies of x
  W_POLICY: {values: [0, 1, 2], default: 1}              # in L2: normal, evict_first, evict_unchanged
  X_POLICY: {values: [0, 1], default: 1}                 # in L2: normal, evict_last
constraints: ["smem <= smem_max - 1024"]
specialize: [MT, PAIR, NT8, STAGES, ALIGNED]
let:
  MT: "M <= 8 ? 8 : (M <= 16 ? 16 : (M <= 32 ? 32 : 64))"
  PAIR: "MT >= PAIR_FROM ? 2 : 1"
  ALIGNED: "K % 8 == 0 ? 1 : 0"
  units: "ceil_div(N, 8)"
  waves: "ceil_div(units, 16 * 132)"
  NT8: "ceil_div(units, 132 * waves)"
  tile: "8 * NT8"
  x_rows: "floor_div(MT, PAIR)"
  k_warps: "MT >= 32 ? 4 : 8"
  stage: "(tile + MT) * 64 * k_warps"
  STAGES: "max(2, min(12, floor_div(RING * 1024, stage)))"
  smem: "max(STAGES * stage, k_warps * MT * (tile + 8) * 4) + 1024"
  map_k: "ALIGNED ? K : 1"
  map_m: "ALIGNED ? M : 1"
  map_n: "ALIGNED ? N : 1"
  map_row: "ALIGNED ? K : 8"
tensor_maps:  # used only where rows are aligned to 16 bytes
  map_x: {tensor: x, sizes: [map_k, map_m], strides: [map_row], box: [64, x_rows], swizzle: 128B}
  map_w: {tensor: w, sizes: [map_k, map_n], strides: [map_row], box: [64, tile], swizzle: 128B}
launch:
  - kernel: linear
    grid: ["PAIR * ceil_div(N, tile * PAIR)", "ceil_div(M, MT)", 1]
    block: [288, 1, 1]
    cluster: [PAIR, 1, 1]
    shared: smem
    args: [map_x, map_w, x, w, bias, y, M, N, K, with_bias, gelu]
---*/

// A block owns kRows rows of w, kTokens tokens and all of K. A stage of the ring has kBoxes boxes of 64 of K, each kRows rows of w
// and then kTokens rows of x. The 8 warps that compute are kTokenWarps parts of the tokens times kWarpsK pieces of 32 of K.

struct alignas(64) CUtensorMap {
  unsigned long long opaque[16];
};

namespace {

using Element = unsigned short;

enum : int {
  kTokens = MT,
  kRows = 8 * NT8,
  kThreads = 288,  // 8 warps that compute, and one that loads
  kTokenWarps = MT >= 32 ? 2 : 1,
  kWarpsK = 8 / kTokenWarps,
  kBoxes = kWarpsK / 2,
  kDepth = 64 * kBoxes,
  kTiles = MT >= 32 ? MT / 32 : 1,  // of 16 tokens, for a warp
  kXRows = MT / PAIR,               // of x, that a block loads for its pair
  kWeightBytes = kRows * 128,
  kBoxBytes = (kRows + kTokens) * 128,
  kStageBytes = kBoxes * kBoxBytes,
  kPitch = kRows + 8
};

__device__ __forceinline__ float widened(Element x) {
  return __uint_as_float(static_cast<unsigned>(x) << 16);
}
__device__ __forceinline__ Element narrowed(float x) {
  Element y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ Element finished(float v, const Element* bias, int column, int with_bias, int gelu) {
  if (with_bias) v += widened(bias[column]);
  if (gelu) v = v / (1.0f + expf(-1.5957691216f * (v + 0.044715f * v * v * v)));
  return narrowed(v);
}

__device__ __forceinline__ void wait(unsigned barrier, unsigned parity) {
  unsigned done;
  do {
    asm volatile(
        "{\n\t"
        ".reg .pred p;\n\t"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n\t"
        "selp.u32 %0, 1, 0, p;\n\t"
        "}"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
  } while (!done);
}

__device__ __forceinline__ unsigned long long policy_of_w() {
  unsigned long long policy;
#if W_POLICY == 1
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
#elif W_POLICY == 2
  asm volatile("createpolicy.fractional.L2::evict_unchanged.b64 %0, 1.0;" : "=l"(policy));
#else
  asm volatile("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(policy));
#endif
  return policy;
}

__device__ __forceinline__ unsigned long long policy_of_x() {
  unsigned long long policy;
#if X_POLICY == 1
  asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
#else
  asm volatile("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(policy));
#endif
  return policy;
}

__device__ __forceinline__ void load_box(unsigned to, const CUtensorMap* map, unsigned barrier, int k, int row,
                                         unsigned long long policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%3, "
      "%4}], [%2], %5;" ::"r"(to),
      "l"(reinterpret_cast<unsigned long long>(map)), "r"(barrier), "r"(k), "r"(row), "l"(policy)
      : "memory");
}

// Into both blocks of the pair, at the same place, each with its own barrier.
__device__ __forceinline__ void load_box_pair(unsigned to, const CUtensorMap* map, unsigned barrier, int k, int row,
                                              unsigned long long policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint "
      "[%0], [%1, {%3, %4}], [%2], %5, %6;" ::"r"(to),
      "l"(reinterpret_cast<unsigned long long>(map)), "r"(barrier), "r"(k), "r"(row),
      "h"(static_cast<unsigned short>(3)), "l"(policy)
      : "memory");
}

__device__ __forceinline__ void load_matrices(unsigned (&r)[4], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

__device__ __forceinline__ void multiply(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ void pair_barrier() {
#if PAIR > 1
  asm volatile("barrier.cluster.arrive.release;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
#else
  __syncthreads();
#endif
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads, 1)
    linear(const __grid_constant__ CUtensorMap map_x, const __grid_constant__ CUtensorMap map_w,
           const Element* __restrict__ x, const Element* __restrict__ w, const Element* __restrict__ bias,
           Element* __restrict__ y, int M, int N, int K, int with_bias, int gelu) {
  const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
  const int left = static_cast<int>(blockIdx.x) * kRows, top = static_cast<int>(blockIdx.y) * kTokens;

#if ALIGNED
  extern __shared__ __align__(1024) unsigned char shared_bytes[];
  __shared__ __align__(8) unsigned long long full[STAGES];
  __shared__ __align__(8) unsigned long long empty[STAGES];
  const unsigned start = static_cast<unsigned>(__cvta_generic_to_shared(shared_bytes));
  const unsigned offset = (1024u - (start & 1023u)) & 1023u;
  const unsigned ring = start + offset;
  const unsigned full0 = static_cast<unsigned>(__cvta_generic_to_shared(full));
  const unsigned empty0 = static_cast<unsigned>(__cvta_generic_to_shared(empty));

  const int rank = static_cast<int>(blockIdx.x) % PAIR;
  const int turns = (K + kDepth - 1) / kDepth;
  // Pairs begin at different k, so that not all ask for the same lines of x at once.
  const int rotation =
      static_cast<int>(static_cast<long long>(blockIdx.x / PAIR) * turns / static_cast<int>(gridDim.x / PAIR));
  const auto k_of = [&](int turn) {
    const int at = turn + rotation;
    return (at < turns ? at : at - turns) * kDepth;
  };
  const unsigned long long w_policy = policy_of_w(), x_policy = policy_of_x();
  const auto issue_w = [&](int slot, int turn) {
    const unsigned bar = full0 + 8u * slot, to = ring + slot * kStageBytes;
    const int k = k_of(turn);
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(static_cast<int>(kStageBytes))
                 : "memory");
#pragma unroll
    for (int b = 0; b < kBoxes; ++b) load_box(to + b * kBoxBytes, &map_w, bar, k + 64 * b, left, w_policy);
  };
  const auto issue_x = [&](int slot, int turn) {
    const unsigned bar = full0 + 8u * slot, to = ring + slot * kStageBytes + kWeightBytes;
    const int k = k_of(turn);
#pragma unroll
    for (int b = 0; b < kBoxes; ++b) {
#if PAIR > 1
      load_box_pair(to + b * kBoxBytes + rank * (kXRows * 128), &map_x, bar, k + 64 * b, top + rank * kXRows, x_policy);
#else
      load_box(to + b * kBoxBytes, &map_x, bar, k + 64 * b, top, x_policy);
#endif
    }
  };

  // The first ring needs no free slots: w at once, x when the other block of the pair has its barriers.
  if (tid == 256) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(reinterpret_cast<unsigned long long>(&map_w)) : "memory");
    asm volatile("prefetch.tensormap [%0];" ::"l"(reinterpret_cast<unsigned long long>(&map_x)) : "memory");
    for (int s = 0; s < STAGES; ++s) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(full0 + 8u * s), "r"(1) : "memory");
      asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(empty0 + 8u * s), "r"(8 * PAIR) : "memory");
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#pragma unroll 1
    for (int turn = 0; turn < STAGES && turn < turns; ++turn) {
      issue_w(turn, turn);
#if PAIR == 1
      issue_x(turn, turn);
#endif
    }
  }
  pair_barrier();

  const int part = warp % kWarpsK;                       // of K
  const int first_token = warp / kWarpsK * (16 * kTiles);  // in the block; not used by the warp that loads
  float sums[kTiles][NT8][4];
#pragma unroll
  for (int t = 0; t < kTiles; ++t)
#pragma unroll
    for (int i = 0; i < NT8; ++i)
#pragma unroll
      for (int e = 0; e < 4; ++e) sums[t][i][e] = 0.0f;

  if (warp == 8) {
    if (lane == 0) {
#if PAIR > 1
#pragma unroll 1
      for (int turn = 0; turn < STAGES && turn < turns; ++turn) issue_x(turn, turn);
#endif
      int slot = 0;
      unsigned phase = 0;
#pragma unroll 1
      for (int turn = STAGES; turn < turns; ++turn) {
        wait(empty0 + 8u * slot, phase);
        issue_w(slot, turn);
        issue_x(slot, turn);
        if (++slot == STAGES) {
          slot = 0;
          phase ^= 1u;
        }
      }
    }
    __syncwarp();
  } else {
    const int r = lane & 7, matrix = lane >> 3;
    const unsigned box = ring + (part >> 1) * kBoxBytes;
    const int eighth = (part & 1) * 4;  // 16 bytes each, in a row of 128
    const unsigned w_at = box + r * 128 + (((eighth + matrix) ^ r) << 4);
#if MT >= 16
    const unsigned x_row = box + kWeightBytes + (first_token + (matrix & 1) * 8 + r) * 128;
    const unsigned x_at0 = x_row + (((eighth + (matrix >> 1)) ^ r) << 4);
    const unsigned x_at1 = x_row + (((eighth + 2 + (matrix >> 1)) ^ r) << 4);
#else
    const unsigned x_at = box + kWeightBytes + r * 128 + (((eighth + matrix) ^ r) << 4);
#endif
#if PAIR > 1
    unsigned other_empty0;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(other_empty0) : "r"(empty0), "r"(rank ^ 1));
#endif
    int slot = 0;
    unsigned phase = 0;
#pragma unroll 1
    for (int turn = 0; turn < turns; ++turn) {
      wait(full0 + 8u * slot, phase);
      __syncwarp();
      const unsigned at = slot * kStageBytes;
      unsigned a[2][kTiles][4];  // two products of 16 of K
#if MT >= 16
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        load_matrices(a[0][t], x_at0 + at + t * 2048);
        load_matrices(a[1][t], x_at1 + at + t * 2048);
      }
#else
      {
        unsigned of_x[4];
        load_matrices(of_x, x_at + at);
        a[0][0][0] = of_x[0];
        a[0][0][1] = 0;
        a[0][0][2] = of_x[1];
        a[0][0][3] = 0;
        a[1][0][0] = of_x[2];
        a[1][0][1] = 0;
        a[1][0][2] = of_x[3];
        a[1][0][3] = 0;
      }
#endif
#pragma unroll
      for (int i = 0; i < NT8; ++i) {
        unsigned b[4];
        load_matrices(b, w_at + at + i * 1024);
#pragma unroll
        for (int t = 0; t < kTiles; ++t) multiply(sums[t][i], a[0][t], b[0], b[1]);
#pragma unroll
        for (int t = 0; t < kTiles; ++t) multiply(sums[t][i], a[1][t], b[2], b[3]);
      }
      __syncwarp();
      if (lane == 0) {
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(empty0 + 8u * slot) : "memory");
#if PAIR > 1
        asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(other_empty0 + 8u * slot) : "memory");
#endif
      }
      if (++slot == STAGES) {
        slot = 0;
        phase ^= 1u;
      }
    }
  }

  // The sums of the parts of K, in a fixed order. All copies have arrived: the ring is free after the barrier.
  __syncthreads();
  float* const slots = reinterpret_cast<float*>(shared_bytes + offset);
  if (warp < 8) {
#pragma unroll
    for (int t = 0; t < kTiles; ++t)
#pragma unroll
      for (int i = 0; i < NT8; ++i)
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const int token = first_token + t * 16 + h * 8 + (lane >> 2);
          if (token < kTokens)
            *reinterpret_cast<float2*>(slots + (part * kTokens + token) * kPitch + i * 8 + 2 * (lane & 3)) =
                make_float2(sums[t][i][2 * h], sums[t][i][2 * h + 1]);
        }
  }
  __syncthreads();
  for (int i = tid; i < kTokens * (kRows / 4); i += kThreads) {
    const int token = i / (kRows / 4), n = i % (kRows / 4) * 4;
    const int m = top + token, column = left + n;
    if (m < M && column < N) {
      float v[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
      for (int p = 0; p < kWarpsK; ++p) {
        const float4 of = *reinterpret_cast<const float4*>(slots + (p * kTokens + token) * kPitch + n);
        v[0] += of.x;
        v[1] += of.y;
        v[2] += of.z;
        v[3] += of.w;
      }
      Element* const to = y + static_cast<long long>(m) * N + column;
      if ((N & 3) == 0) {
        unsigned result[4];
#pragma unroll
        for (int e = 0; e < 4; ++e) result[e] = finished(v[e], bias, column + e, with_bias, gelu);
        *reinterpret_cast<uint2*>(to) = make_uint2(result[0] | result[1] << 16, result[2] | result[3] << 16);
      } else {
#pragma unroll
        for (int e = 0; e < 4; ++e)
          if (column + e < N) to[e] = finished(v[e], bias, column + e, with_bias, gelu);
      }
    }
  }
#if PAIR > 1
  pair_barrier();  // the other block may still announce free slots here
#endif
#else
  // Rows that are not aligned: a warp for each output.
  for (int i = warp; i < kTokens * kRows; i += kThreads / 32) {
    const int m = top + i / kRows, column = left + i % kRows;
    if (m >= M || column >= N) continue;
    const Element* const of_x = x + static_cast<long long>(m) * K;
    const Element* const of_w = w + static_cast<long long>(column) * K;
    float v = 0.0f;
    for (int k = lane; k < K; k += 32) v = fmaf(widened(of_x[k]), widened(of_w[k]), v);
#pragma unroll
    for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(0xffffffffu, v, d);
    if (lane == 0) y[static_cast<long long>(m) * N + column] = finished(v, bias, column, with_bias, gelu);
  }
#endif
}
