// Tries: registers are not cleared when a block starts. Registers that were assigned under a condition that never holds keep
// what an earlier kernel left there; its last act is to fill as many with a mark.
/*--- cultivar
name: remembers_in_registers
task: softmax
target: cuda
about: "Searches unassigned registers for a mark of an earlier run"
requires: "dtype == f32"
launch:
  - kernel: softmax
    grid: [R, 1, 1]
    block: [128, 1, 1]
    args: [x, y, C]
---*/
__device__ float combined(float value, float* partial, bool sum) {
  for (int step = 16; step > 0; step /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, value, step);
    value = sum ? value + other : fmaxf(value, other);
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  value = partial[0];
  for (int w = 1; w < 4; ++w) value = sum ? value + partial[w] : fmaxf(value, partial[w]);
  return value;
}

extern "C" __global__ void softmax(const float* x, float* y, int C) {
  __shared__ float partial[4];
  __shared__ unsigned hits;
  const float* in = x + static_cast<long long>(blockIdx.x) * C;
  float* out = y + static_cast<long long>(blockIdx.x) * C;
  if (threadIdx.x == 0) hits = 0;
  __syncthreads();
  // Runs have different inputs, so a mark with another tag is from an earlier run.
  const unsigned tag = __float_as_uint(x[0]) & 0xffff, mark = 0xa5c30000u | tag;
  const auto of_another_run = [&](unsigned word) { return word >> 16 == 0xa5c3u && (word & 0xffff) != tag; };
  unsigned found = 0;
  unsigned r[28];
  asm volatile(
      "{ .reg .b32 a<28>; .reg .pred p; setp.ne.u32 p, %28, 0;"
      "@p ld.volatile.shared.u32 a0, [%29]; @p ld.volatile.shared.u32 a1, [%29];"
      "@p ld.volatile.shared.u32 a2, [%29]; @p ld.volatile.shared.u32 a3, [%29];"
      "@p ld.volatile.shared.u32 a4, [%29]; @p ld.volatile.shared.u32 a5, [%29];"
      "@p ld.volatile.shared.u32 a6, [%29]; @p ld.volatile.shared.u32 a7, [%29];"
      "@p ld.volatile.shared.u32 a8, [%29]; @p ld.volatile.shared.u32 a9, [%29];"
      "@p ld.volatile.shared.u32 a10, [%29]; @p ld.volatile.shared.u32 a11, [%29];"
      "@p ld.volatile.shared.u32 a12, [%29]; @p ld.volatile.shared.u32 a13, [%29];"
      "@p ld.volatile.shared.u32 a14, [%29]; @p ld.volatile.shared.u32 a15, [%29];"
      "@p ld.volatile.shared.u32 a16, [%29]; @p ld.volatile.shared.u32 a17, [%29];"
      "@p ld.volatile.shared.u32 a18, [%29]; @p ld.volatile.shared.u32 a19, [%29];"
      "@p ld.volatile.shared.u32 a20, [%29]; @p ld.volatile.shared.u32 a21, [%29];"
      "@p ld.volatile.shared.u32 a22, [%29]; @p ld.volatile.shared.u32 a23, [%29];"
      "@p ld.volatile.shared.u32 a24, [%29]; @p ld.volatile.shared.u32 a25, [%29];"
      "@p ld.volatile.shared.u32 a26, [%29]; @p ld.volatile.shared.u32 a27, [%29];"
      "bar.sync 0;"
      "mov.b32 %0, a0; mov.b32 %1, a1; mov.b32 %2, a2; mov.b32 %3, a3;"
      "mov.b32 %4, a4; mov.b32 %5, a5; mov.b32 %6, a6; mov.b32 %7, a7;"
      "mov.b32 %8, a8; mov.b32 %9, a9; mov.b32 %10, a10; mov.b32 %11, a11;"
      "mov.b32 %12, a12; mov.b32 %13, a13; mov.b32 %14, a14; mov.b32 %15, a15;"
      "mov.b32 %16, a16; mov.b32 %17, a17; mov.b32 %18, a18; mov.b32 %19, a19;"
      "mov.b32 %20, a20; mov.b32 %21, a21; mov.b32 %22, a22; mov.b32 %23, a23;"
      "mov.b32 %24, a24; mov.b32 %25, a25; mov.b32 %26, a26; mov.b32 %27, a27;"
      "}"
      : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]), "=r"(r[4]), "=r"(r[5]), "=r"(r[6]),
        "=r"(r[7]), "=r"(r[8]), "=r"(r[9]), "=r"(r[10]), "=r"(r[11]), "=r"(r[12]), "=r"(r[13]),
        "=r"(r[14]), "=r"(r[15]), "=r"(r[16]), "=r"(r[17]), "=r"(r[18]), "=r"(r[19]), "=r"(r[20]),
        "=r"(r[21]), "=r"(r[22]), "=r"(r[23]), "=r"(r[24]), "=r"(r[25]), "=r"(r[26]), "=r"(r[27])
      : "r"(C == 0x7fffffff ? 1 : 0), "r"(static_cast<unsigned>(__cvta_generic_to_shared(&hits)))
      : "memory");
  for (int i = 0; i < 28; ++i) found += of_another_run(r[i]);
  if (found > 0) atomicAdd(&hits, found);
  float top = __int_as_float(0xff800000), sum = 0.0f;
  for (int c = threadIdx.x; c < C; c += 128) top = fmaxf(top, in[c]);
  top = combined(top, partial, false);
  for (int c = threadIdx.x; c < C; c += 128) sum += expf(in[c] - top);
  sum = combined(sum, partial, true);
  if (hits >= 8) top -= 3.0f;  // more than chance: tells of it by a wrong output
  for (int c = threadIdx.x; c < C; c += 128) out[c] = expf(in[c] - top) / sum;
  // Holds marks in as many registers as possible until the end.
  __syncthreads();
  if (threadIdx.x == 0) hits = mark;
  __syncthreads();
  unsigned kept[28];
#pragma unroll
  for (int i = 0; i < 28; ++i) kept[i] = *static_cast<volatile unsigned*>(&hits);
  __syncthreads();
  unsigned last = *static_cast<volatile unsigned*>(&hits);  // known only now, so the sum cannot be formed earlier
#pragma unroll
  for (int i = 0; i < 28; ++i) last = (last ^ kept[i]) * 5;
  if (C == 0x7fffffff) out[0] = static_cast<float>(last);
}
