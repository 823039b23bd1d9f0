// Probe: what lies in memory after lines of the L2 cache were discarded: the newest data, or older.
__device__ __forceinline__ unsigned long long joined(unsigned low, unsigned high) {
  return static_cast<unsigned long long>(high) << 32 | low;
}

extern "C" __global__ void write_old(unsigned long long* out, unsigned mark, unsigned, unsigned words, unsigned) {
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < words; i += gridDim.x * blockDim.x) out[i] = mark;
}
extern "C" __global__ void discard_lines(unsigned long long*, unsigned low, unsigned high, unsigned bytes, unsigned) {
  const unsigned long long at = joined(low, high);
  for (unsigned i = 128 * (blockIdx.x * blockDim.x + threadIdx.x); i < bytes; i += 128 * gridDim.x * blockDim.x)
    asm volatile("discard.global.L2 [%0], 128;" ::"l"(at + i) : "memory");
}
extern "C" __global__ void count_old(unsigned long long* out, unsigned low, unsigned high, unsigned mark, unsigned,
                                     unsigned words, unsigned) {
  const volatile unsigned long long* const at = reinterpret_cast<const volatile unsigned long long*>(joined(low, high));
  unsigned long long found = 0;
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < words; i += gridDim.x * blockDim.x) found += at[i] == mark;
  atomicAdd(out, found);
}
