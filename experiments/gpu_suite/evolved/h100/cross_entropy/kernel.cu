/*--- cultivar
name: cross_entropy_staged
task: cross_entropy
target: cuda
about: "A row is read once: each thread copies its 16-byte vectors asynchronously into its own shared memory, all at once; a cluster shares long rows."
requires: "dtype == bf16 && V <= 700000"
tunables:
  BLOCK: {values: [256, 512, 1024], default: 256}
  SLICE: {values: [32, 48, 64, 96], default: 32}  # KiB of a row in one block, at most (more in the longest rows)
  STAGES: {values: [1, 2, 4], default: 2}
constraints: ["smem + 3072 <= smem_max"]
specialize: [CLUSTER, NVEC, ALIGNED, BLOCKS]
let:
  ALIGNED: "V % 8 == 0 ? 1 : 0"
  vectors: "V % 8 == 0 ? floor_div(V, 8) : ceil_div(V + 7, 8)"  # of 16 bytes that a row touches
  CLUSTER: "vectors <= 64 * SLICE ? 1 : (vectors <= 128 * SLICE ? 2 : (vectors <= 256 * SLICE ? 4 : 8))"
  NVEC: "ceil_div(vectors, CLUSTER * BLOCK)"
  smem: "NVEC * BLOCK * 16"
  BLOCKS: "max(1, min(floor_div(1536, BLOCK), floor_div(233472, smem + 3072)))"
launch:
  - kernel: cross_entropy
    grid: ["R * CLUSTER", 1, 1]
    block: [BLOCK, 1, 1]
    cluster: [CLUSTER, 1, 1]
    shared: smem
    args: [logits, targets, loss, dlogits, V, ignore_index]
---*/

#define LOG2E 1.4426950408889634f
#define WARPS (BLOCK / 32)
#define SLOTS (WARPS * CLUSTER)
#define PAIRS ((SLOTS + 31) / 32)
#define PAD 0xff80u  // -inf: its exp is 0 beside any finite maximum, the lowest bf16 too
#define PAD2 0xff80ff80u
#define LOWEST -3.40282347e38f  // the least maximum, of threads without logits too: -inf - LOWEST is no NaN

__device__ __forceinline__ float exp2_of(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ float exp_of(float x) { return exp2_of(x * LOG2E); }
__device__ __forceinline__ unsigned max2(unsigned a, unsigned b) {
  unsigned c;
  asm("max.bf16x2 %0, %1, %2;" : "=r"(c) : "r"(a), "r"(b));
  return c;
}
__device__ __forceinline__ float low(unsigned w) { return __uint_as_float(w << 16); }
__device__ __forceinline__ float high(unsigned w) { return __uint_as_float(w & 0xffff0000u); }
__device__ __forceinline__ unsigned pack(float lo, float hi) {
  unsigned d;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(hi), "f"(lo));
  return d;
}
__device__ __forceinline__ unsigned shared_address(const void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }

// Elements first .. first + 7 of a row, one by one; those outside of the row are PAD.
__device__ __forceinline__ uint4 gather_vector(const unsigned short* in, int first, int count) {
  unsigned part[4];
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const int e = first + 2 * k;
    unsigned lo = PAD, hi = PAD;
    if (e >= 0 && e < count) lo = in[e];
    if (e + 1 >= 0 && e + 1 < count) hi = in[e + 1];
    part[k] = lo | (hi << 16);
  }
  return make_uint4(part[0], part[1], part[2], part[3]);
}

// The same of the output: 16 bytes where the vector is inside of the row, else one by one.
__device__ __forceinline__ void store_vector(unsigned short* out, int first, int count, uint4 w) {
  if (first >= 0 && first + 8 <= count) {
    asm volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(out + first), "r"(w.x), "r"(w.y), "r"(w.z), "r"(w.w)
                 : "memory");
    return;
  }
#if !ALIGNED
  const unsigned part[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    const int e = first + k;
    if (e >= 0 && e < count) out[e] = static_cast<unsigned short>(part[k / 2] >> (16 * (k % 2)));
  }
#endif
}

__device__ __forceinline__ void add_exps(uint4 w, float top, float (&s)[4]) {
  s[0] += exp_of(low(w.x) - top);
  s[1] += exp_of(high(w.x) - top);
  s[2] += exp_of(low(w.y) - top);
  s[3] += exp_of(high(w.y) - top);
  s[0] += exp_of(low(w.z) - top);
  s[1] += exp_of(high(w.z) - top);
  s[2] += exp_of(low(w.w) - top);
  s[3] += exp_of(high(w.w) - top);
}

__device__ __forceinline__ unsigned softmax2(unsigned w, float top, float scale) {
  return pack(exp_of(low(w) - top) * scale, exp_of(high(w) - top) * scale);
}
__device__ __forceinline__ uint4 softmax_vector(uint4 w, float top, float scale) {
  return make_uint4(softmax2(w.x, top, scale), softmax2(w.y, top, scale), softmax2(w.z, top, scale), softmax2(w.w, top, scale));
}

// Only says that this block has started and its mbarrier is initialized (fence.mbarrier_init orders that): relaxed, no fence.
__device__ __forceinline__ void cluster_arrive() {
#if CLUSTER > 1
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#endif
}
__device__ __forceinline__ void cluster_wait() {
#if CLUSTER > 1
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

// (maximum, sum) of the row from those of each thread: each warp sends its pair to all blocks of the cluster, whose
// mbarriers (at shared address `bar`) count the bytes. cluster_arrive() was called before.
__device__ __forceinline__ float2 row_total(float2* slots, unsigned bar, float top, float sum, int rank, int warp, int lane) {
  float most = top;
#pragma unroll
  for (int step = 16; step > 0; step /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, step));
  sum *= exp_of(top - most);
#pragma unroll
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
#if CLUSTER > 1
  cluster_wait();  // all blocks of the cluster have started, and their mbarriers are initialized
  if (lane < CLUSTER) {
    const unsigned slot = shared_address(slots + rank * WARPS + warp);
    unsigned there, there_bar;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(slot), "r"(lane));
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there_bar) : "r"(bar), "r"(lane));
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];" ::"r"(there),
                 "f"(most), "f"(sum), "r"(there_bar)
                 : "memory");
  }
  unsigned complete;
  do {
    asm volatile(
        "{\n.reg .pred p;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n}\n"
        : "=r"(complete)
        : "r"(bar), "r"(0u)
        : "memory");
  } while (complete == 0);
  __syncwarp();
#else
  if (lane == 0) slots[warp] = make_float2(most, sum);
  __syncthreads();
#endif
  float2 pair[PAIRS];
  float all = LOWEST;
#pragma unroll
  for (int k = 0; k < PAIRS; ++k) {
    const int s = k * 32 + lane;
    pair[k] = s < SLOTS ? slots[s] : make_float2(LOWEST, 0.0f);
    all = fmaxf(all, pair[k].x);
  }
#pragma unroll
  for (int step = 16; step > 0; step /= 2) all = fmaxf(all, __shfl_xor_sync(0xffffffffu, all, step));
  float total = 0.0f;
#pragma unroll
  for (int k = 0; k < PAIRS; ++k) total += pair[k].y * exp_of(pair[k].x - all);
#pragma unroll
  for (int step = 16; step > 0; step /= 2) total += __shfl_xor_sync(0xffffffffu, total, step);
  return make_float2(all, total);
}

// A thread copies its vectors into its own slots of shared memory and is the only one to read them: no barrier is needed.
template <int N>
__device__ __forceinline__ void wait_groups() {
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

constexpr int PER = (NVEC + STAGES - 1) / STAGES;  // vectors of a stage

template <int S>
__device__ __forceinline__ void reduce_stages(const uint4* mine, float& top, float& sum) {
  if constexpr (S < STAGES) {
    wait_groups<STAGES - 1 - S>();
    constexpr int from = S * PER < NVEC ? S * PER : NVEC;
    constexpr int to = from + PER < NVEC ? from + PER : NVEC;
    if constexpr (from < to) {
      uint4 v[to - from];
#pragma unroll
      for (int i = 0; i < to - from; ++i) v[i] = mine[(from + i) * BLOCK];
      uint4 t = v[0];
#pragma unroll
      for (int i = 1; i < to - from; ++i) {
        t.x = max2(t.x, v[i].x);
        t.y = max2(t.y, v[i].y);
        t.z = max2(t.z, v[i].z);
        t.w = max2(t.w, v[i].w);
      }
      const unsigned both = max2(max2(t.x, t.y), max2(t.z, t.w));
      const float most = fmaxf(top, fmaxf(low(both), high(both)));
      float s[4] = {sum * exp_of(top - most), 0.0f, 0.0f, 0.0f};
      top = most;
#pragma unroll
      for (int i = 0; i < to - from; ++i) add_exps(v[i], most, s);
      sum = (s[0] + s[1]) + (s[2] + s[3]);
    }
    reduce_stages<S + 1>(mine, top, sum);
  }
}

extern "C" __global__ void __launch_bounds__(BLOCK, BLOCKS)
    cross_entropy(const unsigned short* logits, const long long* targets, float* loss, unsigned short* dlogits, int V,
                  int ignore_index) {
  extern __shared__ __align__(128) unsigned char buffer[];
  __shared__ float2 slots[SLOTS];
  __shared__ __align__(8) unsigned long long pairs_in;  // the mbarrier of slots
  const unsigned bar = shared_address(&pairs_in);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int rank = blockIdx.x % CLUSTER, row = blockIdx.x / CLUSTER;
  const long long offset = static_cast<long long>(row) * V;
  const int skip = ALIGNED ? 0 : static_cast<int>(offset & 7);  // vectors lie on 16 bytes; the row begins here in its first
  const unsigned short* in = logits + offset;
  unsigned short* out = dlogits + offset;
  const int begin = (rank * BLOCK + static_cast<int>(threadIdx.x)) * 8 - skip;
  constexpr int STEP = CLUSTER * BLOCK * 8;
  const long long target = targets[row];
#if CLUSTER > 1
  if (threadIdx.x == 0) {  // while the target is on its way
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(1) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(SLOTS * 8) : "memory");
  }
  __syncwarp();
#endif
  if (target == ignore_index) {  // the same for all blocks of the cluster
#pragma unroll
    for (int i = 0; i < NVEC; ++i) store_vector(out, begin + i * STEP, V, make_uint4(0u, 0u, 0u, 0u));
    if (rank == 0 && threadIdx.x == 0) loss[row] = 0.0f;
    return;
  }

  __syncwarp();
  cluster_arrive();
  uint4* mine = reinterpret_cast<uint4*>(buffer) + threadIdx.x;
  const unsigned mine_at = shared_address(mine);
#pragma unroll
  for (int s = 0; s < STAGES; ++s) {
#pragma unroll
    for (int i = s * PER; i < (s + 1) * PER && i < NVEC; ++i) {
      const int first = begin + i * STEP;
      if (first >= 0 && first + 8 <= V)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(mine_at + i * BLOCK * 16), "l"(in + first) : "memory");
      else
        mine[i * BLOCK] = ALIGNED ? make_uint4(PAD2, PAD2, PAD2, PAD2) : gather_vector(in, first, V);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  }
  __syncwarp();

  float top = LOWEST, sum = 0.0f;
  reduce_stages<0>(mine, top, sum);
  const float2 total = row_total(slots, bar, top, sum, rank, warp, lane);
  const float scale = 1.0f / total.y;
#pragma unroll
  for (int i = 0; i < NVEC; ++i)
    store_vector(out, begin + i * STEP, V, softmax_vector(mine[i * BLOCK], total.x, scale));

  // The thread that wrote the target's vector has its logit in its own shared memory: it writes the target again, and the loss.
  const int place = static_cast<int>(target) + skip, vector = place / 8;
  if (vector % (CLUSTER * BLOCK) == rank * BLOCK + static_cast<int>(threadIdx.x)) {
    const uint4* holder = mine + (vector / (CLUSTER * BLOCK)) * BLOCK;
    const float at = low(reinterpret_cast<const unsigned short*>(holder)[place % 8]);
    out[target] = static_cast<unsigned short>(pack(exp_of(at - total.x) * scale - 1.0f, 0.0f));
    loss[row] = logf(total.y) + (total.x - at);
  }
}
