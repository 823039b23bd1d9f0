// The judge's own kernels. NVRTC compiles them when a device is first opened; the result is cached.
typedef unsigned long long u64;
typedef unsigned int u32;
typedef unsigned char u8;

// splitmix64, as in the cpu target: mixes the bits of a counter.
__device__ __forceinline__ u64 mixed(u64 x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}
// The top exponent bit of every 16-bit word is cleared: finite as f64, f32, f16 and bf16; or all of them are NaN, if
// the seed says so (RunOptions::nan_poison).
__device__ __forceinline__ u64 poison_word(u64 seed, u64 i) {
  const u64 word = mixed(seed + i);
  return seed >> 63 != 0 ? word | 0x7ff87fc07fc07fc0ull : word & 0xbfffbfffbfffbfffull;
}
__device__ __forceinline__ u64 place() { return blockIdx.x * static_cast<u64>(blockDim.x) + threadIdx.x; }
__device__ __forceinline__ u64 stride() { return gridDim.x * static_cast<u64>(blockDim.x); }
__device__ __forceinline__ u64 globaltimer() {
  u64 now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}
__device__ __forceinline__ void add_up(u64 value, u64* to) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
  if (threadIdx.x % 32 == 0 && value != 0) atomicAdd(to, value);
}

extern "C" __global__ void cultivar_poison(u8* to, u64 bytes, u64 seed) {
  const u64 words = bytes / 8;
  for (u64 i = place(); i < words; i += stride()) reinterpret_cast<u64*>(to)[i] = poison_word(seed, i);
  if (blockIdx.x == 0 && threadIdx.x < bytes % 8)
    to[words * 8 + threadIdx.x] = static_cast<u8>(poison_word(seed, words) >> (8 * threadIdx.x));
}

// Counts groups of eight bytes (and a shorter remainder of four or more) that still hold the pattern.
extern "C" __global__ void cultivar_still_poisoned(const u8* at, u64 bytes, u64 seed, u64* count) {
  const u64 words = bytes / 8;
  u64 found = 0;
  for (u64 i = place(); i < words; i += stride())
    found += reinterpret_cast<const u64*>(at)[i] == poison_word(seed, i);
  if (place() == 0 && bytes % 8 >= 4) {
    bool same = true;
    for (u64 b = 0; b < bytes % 8; ++b)
      same = same && at[words * 8 + b] == static_cast<u8>(poison_word(seed, words) >> (8 * b));
    found += same;
  }
  add_up(found, count);
}

extern "C" __global__ void cultivar_checksum(const u8* at, u64 bytes, u64 seed, u64* sum) {
  const u64 words = bytes / 8;
  u64 total = 0;
  for (u64 i = place(); i < words; i += stride())
    total += mixed(reinterpret_cast<const u64*>(at)[i] ^ mixed(seed + i));
  if (place() == 0)
    for (u64 b = words * 8; b < bytes; ++b) total += mixed(at[b] ^ mixed(seed + 8 * bytes + b));
  add_up(total, sum);
}

// Copies from any address to a multiple of 16 bytes.
extern "C" __global__ void cultivar_window(u8* to, const u8* from, u64 bytes) {
  const u64 address = reinterpret_cast<u64>(from);
  const u32* const words = reinterpret_cast<const u32*>(address & ~3ull);
  const u32 shift = static_cast<u32>(address & 3) * 8;
  const u64 quads = bytes / 16;
  for (u64 i = place(); i < quads; i += stride()) {
    u32 w[5];
    for (int k = 0; k < 4; ++k) w[k] = words[4 * i + k];
    w[4] = shift != 0 ? words[4 * i + 4] : 0;
    uint4 quad;
    quad.x = __funnelshift_r(w[0], w[1], shift);
    quad.y = __funnelshift_r(w[1], w[2], shift);
    quad.z = __funnelshift_r(w[2], w[3], shift);
    quad.w = __funnelshift_r(w[3], w[4], shift);
    reinterpret_cast<uint4*>(to)[i] = quad;
  }
  if (blockIdx.x == 0 && threadIdx.x < bytes % 16) to[quads * 16 + threadIdx.x] = from[quads * 16 + threadIdx.x];
}

extern "C" __global__ void cultivar_gather(const u8* from, const u64* elements, u64 count, u32 width, u8* to) {
  for (u64 i = place(); i < count; i += stride())
    for (u32 b = 0; b < width; ++b) to[i * width + b] = from[elements[i] * width + b];
}

struct Regions {
  struct {
    u64 start, bytes;
  } list[128];
};
__device__ __forceinline__ u8 guard_byte(u64 seed, u64 region, u64 i) {
  return static_cast<u8>(mixed(seed ^ (region << 48) ^ i) >> 56);
}
// blockIdx.y is the index of the region.
extern "C" __global__ void cultivar_write_guards(const __grid_constant__ Regions regions, u64 seed) {
  const u64 r = blockIdx.y;
  u8* const at = reinterpret_cast<u8*>(regions.list[r].start);
  for (u64 i = place(); i < regions.list[r].bytes; i += stride()) at[i] = guard_byte(seed, r, i);
}
// Finds the first and last changed byte of each region; low[r] > high[r] if none changed.
extern "C" __global__ void cultivar_check_guards(const __grid_constant__ Regions regions, u64 seed, u64* low,
                                                 u64* high) {
  const u64 r = blockIdx.y;
  const u8* const at = reinterpret_cast<const u8*>(regions.list[r].start);
  for (u64 i = place(); i < regions.list[r].bytes; i += stride()) {
    if (at[i] == guard_byte(seed, r, i)) continue;
    atomicMin(low + r, i);
    atomicMax(high + r, i + 1);
  }
}

// Blocks the stream until the host writes `token`, so that all following work is queued before it starts.
extern "C" __global__ void cultivar_wait(const volatile u32* flag, u32 token, volatile u32* gave_up, u64 limit_ns) {
  const u64 start = globaltimer();
  while (*flag != token) {
    if (globaltimer() - start < limit_ns) continue;
    *gave_up = token;
    __threadfence_system();
    return;
  }
}

// Stores the clock and the time of each multiprocessor: two such stamps give the frequency in between.
extern "C" __global__ void cultivar_stamp(u64* out) {
  u32 sm;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  out[2 * sm] = globaltimer();
  out[2 * sm + 1] = clock64();
}

extern "C" __global__ void cultivar_nothing() {}

// Waits until all blocks of the launch have begun, for at most 2 ms. Blocks of which no two fit on a
// multiprocessor then cover all of them: without this, one that begins late could take the place of one that
// has ended. `arrivals` counts on from launch to launch of the same grid.
__device__ __forceinline__ void meet(u32* arrivals) {
  __syncthreads();
  if (threadIdx.x == 0) {
    const u32 all = (atomicAdd(arrivals, 1) / gridDim.x + 1) * gridDim.x;
    const u64 limit = globaltimer() + 2000000;
    while (static_cast<int>(*static_cast<volatile u32*>(arrivals) - all) < 0 && globaltimer() < limit) {
    }
  }
  __syncthreads();
}
__device__ u32 cultivar_scrubbers, cultivar_fillers;

// One block per multiprocessor overwrites all of its shared memory, so that nothing of an earlier kernel
// remains. The first KiB of a block's shared memory is reserved for the system, lies in front of what a kernel
// declares, and can be written by a kernel all the same (cooperative groups do).
extern "C" __global__ void cultivar_scrub(u32 bytes, u64 seed, u32 reserved_too) {
  extern __shared__ u64 shared[];
  meet(&cultivar_scrubbers);
  u32 reserved;
  asm volatile("mov.u32 %0, %%reserved_smem_offset_begin;" : "=r"(reserved));
  // Up to what the kernel declares, since the system uses only a part of that KiB (288 bytes on an H200): the rest would
  // keep 736 bytes of an earlier kernel's shared memory.
  const u32 end = static_cast<u32>(__cvta_generic_to_shared(shared));
  for (u32 at = reserved + 8 * threadIdx.x; reserved_too != 0 && at + 8 <= end; at += 8 * blockDim.x)
    asm volatile("st.volatile.shared.u64 [%0], %1;" ::"r"(at), "l"(poison_word(seed, at + (static_cast<u64>(blockIdx.x) << 32) + (1ull << 62))) : "memory");
  for (u32 i = threadIdx.x; i < bytes / 8; i += blockDim.x)
    *reinterpret_cast<volatile u64*>(shared + i) = poison_word(seed, i + (static_cast<u64>(blockIdx.x) << 32));
}

// One block per multiprocessor holds all of its registers (65,536: 64 for each of 1,024 threads), so that none
// keeps what an earlier kernel left there: results, or addresses of the judge. Volatile loads are neither
// repeated nor moved across the barrier, so each value stays in a register until all threads have theirs.
extern "C" __global__ void __launch_bounds__(1024, 1) cultivar_fill_registers(u64 seed, u32* never) {
  constexpr int count = 60;
  __shared__ volatile u32 values[1024];
  meet(&cultivar_fillers);
  values[threadIdx.x] = static_cast<u32>(mixed(seed + blockIdx.x * 1024 + threadIdx.x));
  __syncthreads();
  u32 r[count];
#pragma unroll
  for (int i = 0; i < count; ++i) r[i] = values[(threadIdx.x + i) & 1023];
  __syncthreads();
  u32 sum = values[threadIdx.x ^ 1];  // known only now, so the sum cannot be formed earlier
#pragma unroll
  for (int i = 0; i < count; ++i) sum = (sum ^ r[i]) * 5;
  if (never != nullptr) never[threadIdx.x] = sum;
}

// --- Ceilings ---

extern "C" __global__ void cultivar_copy(uint4* to, const uint4* from, u64 count) {
  for (u64 i = place(); i < count; i += stride()) to[i] = from[i];
}

extern "C" __global__ void cultivar_read(const uint4* from, u64 count, u32 passes, u32* out) {
  u32 sum = 0;
  for (u32 p = 0; p < passes; ++p)
    for (u64 i = place(); i < count; i += stride()) {
      uint4 v;
      asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                   : "l"(from + i));
      sum += v.x ^ v.y ^ v.z ^ v.w;
    }
  if (sum == 0x12345678u) *out = sum;
}

// bf16 products with f32 sums at the full rate of the matrix units: operands stay in place. 4 warps form a
// warpgroup; one iteration is 64 x 256 x 64 (sm_90a) or 4 x (16 x 8 x 16) per warp.
extern "C" __global__ void __launch_bounds__(256) cultivar_matrix(u32 iterations, float* out) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  __shared__ alignas(1024) u8 tiles[8192 + 32768];
  for (u32 i = threadIdx.x; i < sizeof tiles / 4; i += blockDim.x) reinterpret_cast<u32*>(tiles)[i] = 0;
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  const u32 base = static_cast<u32>(__cvta_generic_to_shared(tiles));
  // 128-byte swizzle: groups of 8 rows of 128 bytes, 1024 bytes apart.
  const u64 layout = (1ull << 62) | (64ull << 32) | (1ull << 16);
  const u64 a = layout | ((base & 0x3ffff) >> 4), b = layout | (((base + 8192) & 0x3ffff) >> 4);
  float d[128];
  for (int i = 0; i < 128; ++i) d[i] = 0.0f;
  for (u32 n = 0; n < iterations; ++n) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    for (int k = 0; k < 4; ++k) CULTIVAR_WGMMA(d, a + 2 * k, b + 2 * k);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  }
  float sum = 0.0f;
  for (int i = 0; i < 128; ++i) sum += d[i];
  if (sum == 12345.0f) *out = sum;
#else
  float d[4][4] = {};
  const u32 a[4] = {threadIdx.x & 1u, 0, 0, 0}, b[2] = {0, 0};
  for (u32 n = 0; n < iterations; ++n)
    for (int j = 0; j < 4; ++j)
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
          : "+f"(d[j][0]), "+f"(d[j][1]), "+f"(d[j][2]), "+f"(d[j][3])
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  float sum = 0.0f;
  for (int j = 0; j < 4; ++j) sum += d[j][0] + d[j][1] + d[j][2] + d[j][3];
  if (sum == 12345.0f) *out = sum;
#endif
}
