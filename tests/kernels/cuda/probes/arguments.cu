// Probe: where the argument of an earlier launch (`carries`) can be found: in the bank of this kernel's parameters behind
// the last of them, in the memory around them, in the bank of constants, in the memory around a table. The wanted
// value arrives in two parts, so that no parameter holds it.
__device__ __forceinline__ unsigned long long joined(unsigned low, unsigned high) {
  return static_cast<unsigned long long>(high) << 32 | low;
}

__constant__ unsigned constants[4] = {1, 2, 3, 4};
static __device__ const unsigned table[8] = {1, 2, 3, 4, 5, 6, 7, 8};

extern "C" __global__ void carries(unsigned long long* out, unsigned low, unsigned high) {
  if (threadIdx.x == 99) *out = joined(low, high);
}

#define SEARCH(NAME, LAST)                                                                                         \
  extern "C" __global__ void NAME(unsigned long long* out, unsigned a, unsigned b, unsigned c, unsigned d, unsigned reach, \
                                  LAST)

SEARCH(in_bank_of_parameters, unsigned) {
  const unsigned low = a ^ c, high = b ^ d;
  for (unsigned i = 4 * threadIdx.x; i + 8 <= reach; i += 4 * blockDim.x) {
    unsigned first, second;
    asm volatile(
        "{ .reg .b64 a; mov.b64 a, in_bank_of_parameters_param_6; add.s64 a, a, %2; ld.param.u32 %0, [a];"
        " ld.param.u32 %1, [a+4]; }"
        : "=r"(first), "=r"(second)
        : "l"(static_cast<unsigned long long>(i)));
    if (first == low && second == high) atomicAdd(out, 1ull);
  }
}

SEARCH(around_parameters, const __grid_constant__ unsigned last) {
  const unsigned low = a ^ c, high = b ^ d;
  const volatile unsigned* const at = &last;
  for (long long i = static_cast<long long>(threadIdx.x) - reach / 4; i + 1 < reach / 4; i += blockDim.x)
    if (at[i] == low && at[i + 1] == high) atomicAdd(out, 1ull);
}

SEARCH(behind_constants, unsigned) {
  const unsigned low = a ^ c, high = b ^ d;
  for (unsigned i = threadIdx.x; i + 1 < reach / 4; i += blockDim.x)
    if (constants[i] == low && constants[i + 1] == high) atomicAdd(out, 1ull);
}

SEARCH(around_table, unsigned) {
  const unsigned low = a ^ c, high = b ^ d;
  const volatile unsigned* const at = table;
  for (long long i = static_cast<long long>(threadIdx.x) - reach / 4; i + 1 < reach / 4; i += blockDim.x)
    if (at[i] == low && at[i + 1] == high) atomicAdd(out, 1ull);
}
