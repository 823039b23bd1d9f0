/*--- cultivar
name: cross_entropy_shared_slices
task: cross_entropy
target: cuda
about: "A row is read once: bulk copies bring its slices to the shared memory of a cluster, maximum and sum online as chunks arrive, one exchange of pairs, the gradient from shared memory."
requires: "dtype == bf16"
tunables:
  BLOCK: {values: [256, 512], default: 512}
  SLICE: {values: [38400, 76160], default: 76160}  # bytes of a row that a block holds: 6 or 3 blocks for each multiprocessor
specialize: [V, dtype]
let:
  packets: "floor_div(V, 8)"
  capacity: "floor_div(SLICE, 16)"
  fast: "V % 8 == 0 && packets <= 8 * capacity ? 1 : 0"
  slices: "(fast == 0 || packets <= capacity) ? 1 : (packets <= 2 * capacity ? 2 : (packets <= 4 * capacity ? 4 : 8))"
  dynamic_bytes: "fast == 1 ? 16 * ceil_div(packets, slices) : 16"
launch:
  - kernel: cross_entropy
    grid: ["R * slices", 1, 1]
    block: [BLOCK, 1, 1]
    cluster: [slices, 1, 1]
    shared: dynamic_bytes
    args: [logits, targets, loss, dlogits, ignore_index]
---*/

// Packets are 16 bytes, 8 elements. Rows that are not made of packets (or too long) are taken by elements, one block each.

#include <cuda_bf16.h>

namespace {

// As in the manifest.
constexpr int kPackets = V / 8;
constexpr int kCapacity = SLICE / 16;
constexpr bool kFast = V % 8 == 0 && kPackets <= 8 * kCapacity;
constexpr int kSlices =
    (!kFast || kPackets <= kCapacity) ? 1 : (kPackets <= 2 * kCapacity ? 2 : (kPackets <= 4 * kCapacity ? 4 : 8));
constexpr int kSlicePackets = (kPackets + kSlices - 1) / kSlices;
constexpr int kPerChunk = 2;
constexpr int kChunkPackets = kPerChunk * BLOCK;
constexpr int kChunks = kFast ? (kSlicePackets + kChunkPackets - 1) / kChunkPackets : 1;
constexpr int kWarps = BLOCK / 32;
constexpr int kResident = SLICE > 50000 ? 3 : (1536 / BLOCK < 6 ? 1536 / BLOCK : 6);
constexpr float kLog2E = 1.4426950408889634f;
constexpr float kLowest = -3.40282347e38f;  // of finite numbers

__device__ __forceinline__ float exp2_of(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// exp(x - top); exactly 1 at the maximum.
__device__ __forceinline__ float exp_of(float x, float top) {
  return exp2_of((x - top) * kLog2E);
}

__device__ __forceinline__ float low(unsigned word) {
  return __uint_as_float(word << 16);
}
__device__ __forceinline__ float high(unsigned word) {
  return __uint_as_float(word & 0xffff0000u);
}
__device__ __forceinline__ unsigned pack(float lo, float hi) {
  unsigned word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(hi), "f"(lo));
  return word;
}
__device__ __forceinline__ unsigned larger(unsigned a, unsigned b) {
  unsigned c;
  asm("max.bf16x2 %0, %1, %2;" : "=r"(c) : "r"(a), "r"(b));
  return c;
}

__device__ __forceinline__ void store(uint4* to, unsigned a, unsigned b, unsigned c, unsigned d) {
  asm volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}

__device__ __forceinline__ float warp_maximum(float value) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, step));
  return value;
}
__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
  return value;
}

// Maximum, and sum of the exponentials relative to it, of all threads of the block. Called once.
__device__ __forceinline__ float2 over_block(float top, float sum) {
  __shared__ float2 of_warps[kWarps];
  const int lane = threadIdx.x % 32;
  float whole = warp_maximum(top);
  sum = warp_sum(sum * exp_of(top, whole));
  if (lane == 0) of_warps[threadIdx.x / 32] = make_float2(whole, sum);
  __syncthreads();
  const float2 mine = lane < kWarps ? of_warps[lane] : make_float2(kLowest, 0.0f);
  whole = warp_maximum(mine.x);
  return make_float2(whole, warp_sum(mine.y * exp_of(mine.x, whole)));
}

__device__ __forceinline__ unsigned shared_address(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ void wait_for(unsigned barrier) {
  unsigned done = 0;
  while (done == 0)
    asm volatile(
        "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;\nselp.u32 %0, 1, 0, p;\n}"
        : "=r"(done)
        : "r"(barrier)
        : "memory");
}

__device__ __forceinline__ void add(const uint4& q, float& top, float& sum) {
  const unsigned both = larger(larger(q.x, q.y), larger(q.z, q.w));
  const float now = fmaxf(top, fmaxf(low(both), high(both)));
  sum *= exp_of(top, now);
  top = now;
  const float a = exp_of(low(q.x), now) + exp_of(high(q.x), now);
  const float b = exp_of(low(q.y), now) + exp_of(high(q.y), now);
  const float c = exp_of(low(q.z), now) + exp_of(high(q.z), now);
  const float d = exp_of(low(q.w), now) + exp_of(high(q.w), now);
  sum += (a + b) + (c + d);
}

__device__ __forceinline__ void by_slices(const __nv_bfloat16* logits, const long long* targets, float* loss,
                                          __nv_bfloat16* dlogits, int ignore_index) {
  extern __shared__ __align__(128) unsigned char memory[];
  __shared__ alignas(8) unsigned long long barriers[kChunks];
  __shared__ alignas(16) float2 of_slices[kSlices];

  const int tid = static_cast<int>(threadIdx.x);
  const long long row = static_cast<long long>(blockIdx.x / kSlices);
  const int slice = static_cast<int>(blockIdx.x % kSlices);
  const int first = slice * kSlicePackets;
  const int count = kPackets - first < kSlicePackets ? kPackets - first : kSlicePackets;
  const __nv_bfloat16* const in = logits + row * V;
  uint4* const out = reinterpret_cast<uint4*>(dlogits + row * V) + first;
  const long long target = targets[row];

  if (target == ignore_index) {  // in all blocks of the cluster
    for (int p = tid; p < count; p += BLOCK) store(out + p, 0u, 0u, 0u, 0u);
    if (slice == 0 && tid == 0) loss[row] = 0.0f;
    return;
  }
  // The other blocks have started before anything is written to them; waited for below.
  if constexpr (kSlices > 1) asm volatile("barrier.cluster.arrive.release;" ::: "memory");

  const unsigned bars = shared_address(barriers), data = shared_address(memory);
  float of_target = 0.0f;
  if (tid == 0) {
    for (int c = 0; c < kChunks; ++c) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bars + 8 * c) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    for (int c = 0; c < kChunks; ++c) {
      const int begin = c * kChunkPackets;
      if (begin < count) {
        const int bytes = 16 * (count - begin < kChunkPackets ? count - begin : kChunkPackets);
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bars + 8 * c), "r"(bytes) : "memory");
        asm volatile(
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(data + 16 * begin),
            "l"(in + 8ll * (first + begin)), "r"(bytes), "r"(bars + 8 * c)
            : "memory");
      }
    }
    if (slice == 0) of_target = __bfloat162float(in[target]);
  }
  __syncthreads();

  const uint4* const held = reinterpret_cast<const uint4*>(memory);
  float top = kLowest, sum = 0.0f;
#pragma unroll 1
  for (int c = 0; c * kChunkPackets < count; ++c) {
    wait_for(bars + 8 * c);
#pragma unroll
    for (int k = 0; k < kPerChunk; ++k) {
      const int p = c * kChunkPackets + k * BLOCK + tid;
      if (p < count) add(held[p], top, sum);
    }
  }

  float2 whole = over_block(top, sum);
  if constexpr (kSlices > 1) {
    asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
    if (tid < kSlices) {
      unsigned remote;
      asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(shared_address(of_slices + slice)), "r"(tid));
      asm volatile("st.shared::cluster.v2.f32 [%0], {%1, %2};" ::"r"(remote), "f"(whole.x), "f"(whole.y) : "memory");
    }
    asm volatile("barrier.cluster.arrive.release;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
    float highest = kLowest, total = 0.0f;
#pragma unroll
    for (int i = 0; i < kSlices; ++i) highest = fmaxf(highest, of_slices[i].x);
#pragma unroll
    for (int i = 0; i < kSlices; ++i) total += of_slices[i].y * exp_of(of_slices[i].x, highest);
    whole = make_float2(highest, total);
  }
  if (slice == 0 && tid == 0) loss[row] = logf(whole.y) + (whole.x - of_target);

  const float factor = 1.0f / whole.y;
  const int of_packet = static_cast<int>(target / 8) - first;  // may be another block's
  const int of_element = static_cast<int>(target % 8);
#pragma unroll 2
  for (int p = tid; p < count; p += BLOCK) {
    const uint4 q = held[p];
    float g[8] = {low(q.x), high(q.x), low(q.y), high(q.y), low(q.z), high(q.z), low(q.w), high(q.w)};
#pragma unroll
    for (int i = 0; i < 8; ++i) g[i] = exp_of(g[i], whole.x) * factor;
    if (p == of_packet) {
#pragma unroll
      for (int i = 0; i < 8; ++i)
        if (i == of_element) g[i] -= 1.0f;
    }
    store(out + p, pack(g[0], g[1]), pack(g[2], g[3]), pack(g[4], g[5]), pack(g[6], g[7]));
  }
}

__device__ __forceinline__ void by_elements(const __nv_bfloat16* logits, const long long* targets, float* loss,
                                            __nv_bfloat16* dlogits, int ignore_index) {
  const long long row = blockIdx.x;
  const __nv_bfloat16* const in = logits + row * V;
  __nv_bfloat16* const out = dlogits + row * V;
  const long long target = targets[row];
  if (target == ignore_index) {
    for (int v = threadIdx.x; v < V; v += BLOCK) out[v] = __float2bfloat16_rn(0.0f);
    if (threadIdx.x == 0) loss[row] = 0.0f;
    return;
  }
  float top = kLowest, sum = 0.0f;
  for (int v = threadIdx.x; v < V; v += BLOCK) top = fmaxf(top, __bfloat162float(in[v]));
  for (int v = threadIdx.x; v < V; v += BLOCK) sum += exp_of(__bfloat162float(in[v]), top);
  const float2 whole = over_block(top, sum);
  if (threadIdx.x == 0) loss[row] = logf(whole.y) + (whole.x - __bfloat162float(in[target]));
  const float factor = 1.0f / whole.y;
  for (int v = threadIdx.x; v < V; v += BLOCK)
    out[v] = __float2bfloat16_rn(exp_of(__bfloat162float(in[v]), whole.x) * factor - (v == target ? 1.0f : 0.0f));
}

}  // namespace

extern "C" __global__ void __launch_bounds__(BLOCK, kResident)
    cross_entropy(const __nv_bfloat16* logits, const long long* targets, float* loss, __nv_bfloat16* dlogits,
                  int ignore_index) {
  if constexpr (kFast)
    by_slices(logits, targets, loss, dlogits, ignore_index);
  else
    by_elements(logits, targets, loss, dlogits, ignore_index);
}
