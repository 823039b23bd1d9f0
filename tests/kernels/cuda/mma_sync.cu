/*--- cultivar
name: logits_mma
task: attention_forward
target: cuda
about: "Row maxima by mma.sync: a warp holds 16 queries in registers, keys come by cp.async in two stages"
requires: "D == 64 && dtype != f32 && !causal && H == H_kv && S_q % 64 == 0 && S_kv % 32 == 0"
specialize: [dtype]
launch:
  - kernel: logits_mma
    grid: ["S_q / 64", H, B]
    block: [128, 1, 1]
    args: [q, k, lse, S_q, S_kv, H, scale]
---*/
#include <cuda_bf16.h>
#include <cuda_fp16.h>

constexpr int kKeys = 32, kPitch = 72;  // 64 elements and 16 bytes: rows start in different banks
#ifdef DTYPE_BF16
#define MMA_TYPES "bf16.bf16"
#else
#define MMA_TYPES "f16.f16"
#endif

__device__ void copy(DTYPE* to, const DTYPE* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(static_cast<unsigned>(__cvta_generic_to_shared(to))),
               "l"(from)
               : "memory");
}

extern "C" __global__ void __launch_bounds__(128)
logits_mma(const DTYPE* q, const DTYPE* k, float* maxima, int rows, int keys, int heads, float scale) {
  __shared__ alignas(16) DTYPE tile[2][kKeys][kPitch];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = blockIdx.x * 64 + warp * 16 + lane / 4;
  const long long pitch = static_cast<long long>(heads) * 64;
  const DTYPE* queries = q + (static_cast<long long>(blockIdx.z) * rows + row) * pitch + blockIdx.y * 64;
  const DTYPE* all_keys = k + static_cast<long long>(blockIdx.z) * keys * pitch + blockIdx.y * 64;
  unsigned a[4][4];
#pragma unroll
  for (int s = 0; s < 4; ++s)
#pragma unroll
    for (int part = 0; part < 4; ++part)
      a[s][part] = *reinterpret_cast<const unsigned*>(queries + part % 2 * 8 * pitch + s * 16 + part / 2 * 8 + lane % 4 * 2);
  const auto fetch = [&](int stage, int from) {
    for (int piece = threadIdx.x; piece < kKeys * 8; piece += 128)
      copy(&tile[stage][piece / 8][piece % 8 * 8], all_keys + (from + piece / 8) * pitch + piece % 8 * 8);
    asm volatile("cp.async.commit_group;");
  };
  float top[2] = {__int_as_float(0xff800000), __int_as_float(0xff800000)};
  fetch(0, 0);
  for (int from = 0; from < keys; from += kKeys) {
    const int stage = from / kKeys % 2;
    if (from + kKeys < keys) fetch(stage ^ 1, from + kKeys);
    else asm volatile("cp.async.commit_group;");
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    __syncthreads();
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n) {
      float d[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
      for (int s = 0; s < 4; ++s) {
        const DTYPE* b = &tile[stage][n * 8 + lane / 4][s * 16 + lane % 4 * 2];
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." MMA_TYPES ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
                     "{%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a[s][0]), "r"(a[s][1]), "r"(a[s][2]), "r"(a[s][3]),
                       "r"(*reinterpret_cast<const unsigned*>(b)), "r"(*reinterpret_cast<const unsigned*>(b + 8)));
      }
      top[0] = fmaxf(top[0], fmaxf(d[0], d[1]));
      top[1] = fmaxf(top[1], fmaxf(d[2], d[3]));
    }
    __syncthreads();
  }
  for (int half = 0; half < 2; ++half)
    for (int step = 1; step < 4; step *= 2) top[half] = fmaxf(top[half], __shfl_xor_sync(0xffffffffu, top[half], step));
  float* out = maxima + (static_cast<long long>(blockIdx.z) * heads + blockIdx.y) * rows + row;
  if (lane % 4 == 0) out[0] = scale * top[0], out[8] = scale * top[1];
}
