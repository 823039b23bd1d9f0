// Probe: reads eight bytes at an address of the host.
__device__ __forceinline__ unsigned long long joined(unsigned low, unsigned high) {
  return static_cast<unsigned long long>(high) << 32 | low;
}

extern "C" __global__ void reads(unsigned long long* out, unsigned low, unsigned high) {
  *out = *reinterpret_cast<const volatile unsigned long long*>(joined(low, high));
}
