/*--- cultivar
name: ignored_setmaxnreg
task: attention_forward
target: cuda
about: "Has no launch bounds, so ptxas ignores setmaxnreg"
requires: "D == 64 && dtype == bf16 && !causal && H == H_kv && S_q % 64 == 0 && S_kv % 64 == 0"
tunables:
  STAGES: {values: [2, 3, 4], default: 3}
constraints: ["smem <= smem_max"]
let:
  tile: "64 * 64 * 2"
  smem: "1024 + (1 + STAGES) * tile"
tensor_maps:
  map_q: {tensor: q, sizes: [D, H, S_q, B], strides: [D, H*D, S_q*H*D], box: [64, 1, 64, 1], swizzle: 128B, l2_promotion: 256B}
  map_k: {tensor: k, sizes: [D, H_kv, S_kv, B], strides: [D, H_kv*D, S_kv*H_kv*D], box: [64, 1, 64, 1], swizzle: 128B}
launch:
  - kernel: row_maxima
    grid: ["S_q / 64", H, B]
    block: [256, 1, 1]
    shared: smem
    args: [map_q, map_k, lse, S_q, "S_kv / 64", scale]
---*/
// As ../wgmma_tma.cu, without __launch_bounds__.
struct alignas(64) CUtensorMap {
  unsigned long long opaque[16];
};
using u32 = unsigned;
using u64 = unsigned long long;
constexpr u32 kTile = 64 * 64 * 2;

__device__ u32 shared_address(const void* p) { return static_cast<u32>(__cvta_generic_to_shared(p)); }

__device__ void start(u32 barrier, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}
__device__ void expect(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ void arrive(u32 barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ void wait(u32 barrier, u32 parity) {
  asm volatile(
      "{\n.reg .pred done;\nagain:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n}" ::"r"(barrier), "r"(parity) : "memory");
}
__device__ void load(u32 to, const CUtensorMap& map, u32 barrier, int row, int head, int batch) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2];"
      ::"r"(to), "l"(&map), "r"(barrier), "r"(0), "r"(head), "r"(row), "r"(batch) : "memory");
}
__device__ u64 matrix(u32 address) {  // K-major, 128-byte swizzle, 8 rows are 1024 bytes apart
  return (u64(address & 0x3ffff) >> 4) | (u64(1) << 16) | (u64(64) << 32) | (u64(1) << 62);
}
__device__ void multiply(float (&d)[32], u64 a, u64 b, int keep) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, p, 1, 1, 0, 0;\n}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]),
        "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]),
        "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]),
        "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
      : "l"(a), "l"(b), "r"(keep));
}

extern "C" __global__ void 
row_maxima(const __grid_constant__ CUtensorMap map_q, const __grid_constant__ CUtensorMap map_k, float* maxima,
           int rows, int tiles, float scale) {
  extern __shared__ unsigned char memory[];
  __shared__ alignas(8) u64 barriers[2 * STAGES + 1];
  const u32 q = (shared_address(memory) + 1023) & ~1023u, k = q + kTile, full = shared_address(barriers),
            empty = full + 8 * STAGES, q_full = empty + 8 * STAGES;
  const int row = blockIdx.x * 64, head = blockIdx.y, batch = blockIdx.z;
  if (threadIdx.x == 0) {
    for (int s = 0; s < STAGES; ++s) start(full + 8 * s, 1), start(empty + 8 * s, 128);
    start(q_full, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  if (threadIdx.x / 128 == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    if (threadIdx.x == 0) {
      expect(q_full, kTile);
      load(q, map_q, q_full, row, head, batch);
      for (int t = 0; t < tiles; ++t) {
        const int s = t % STAGES;
        if (t >= STAGES) wait(empty + 8 * s, (t / STAGES + 1) & 1);
        expect(full + 8 * s, kTile);
        load(k + s * kTile, map_k, full + 8 * s, t * 64, head, batch);
      }
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    float top[2] = {__int_as_float(0xff800000), __int_as_float(0xff800000)}, d[32];
    wait(q_full, 0);
    for (int t = 0; t < tiles; ++t) {
      const int s = t % STAGES;
      wait(full + 8 * s, (t / STAGES) & 1);
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
      for (int step = 0; step < 4; ++step) multiply(d, matrix(q + 32 * step), matrix(k + s * kTile + 32 * step), step);
      asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
      arrive(empty + 8 * s);
#pragma unroll
      for (int i = 0; i < 32; ++i) top[i / 2 % 2] = fmaxf(top[i / 2 % 2], d[i]);
    }
    for (int half = 0; half < 2; ++half)
      for (int step = 1; step < 4; step *= 2)
        top[half] = fmaxf(top[half], __shfl_xor_sync(0xffffffffu, top[half], step));
    const int lane = threadIdx.x % 32, mine = row + (threadIdx.x / 32 - 4) * 16 + lane / 4;
    float* out = maxima + (static_cast<long long>(batch) * gridDim.y + head) * rows;
    if (lane % 4 == 0) out[mine] = scale * top[0], out[mine + 8] = scale * top[1];
  }
}
