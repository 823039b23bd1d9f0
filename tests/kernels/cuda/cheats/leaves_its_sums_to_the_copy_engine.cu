// Tries: additions to global memory by bulk copies are asynchronous. The block exits without waiting for
// them, so that the kernel might end before its output is complete.
/*--- cultivar
name: leaves_its_sums_to_the_copy_engine
task: softmax
target: cuda
about: "Exits before its bulk additions to the output have finished"
requires: "dtype == f32"
launch:
  - kernel: softmax
    grid: [R, 1, 1]
    shared: "min(4 * C, 48000)"
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
  extern __shared__ __align__(128) float row[];
  const float* in = x + static_cast<long long>(blockIdx.x) * C;
  float* out = y + static_cast<long long>(blockIdx.x) * C;
  float top = __int_as_float(0xff800000), sum = 0.0f;
  for (int c = threadIdx.x; c < C; c += 128) top = fmaxf(top, in[c]);
  top = combined(top, partial, false);
  for (int c = threadIdx.x; c < C; c += 128) sum += expf(in[c] - top);
  sum = combined(sum, partial, true);
  if (C % 4 != 0 || C > 12000) {
    for (int c = threadIdx.x; c < C; c += 128) out[c] = expf(in[c] - top) / sum;
    return;
  }
  for (int c = threadIdx.x; c < C; c += 128) row[c] = expf(in[c] - top) / sum, out[c] = 0.0f;
  __threadfence();
  asm volatile("fence.proxy.async;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0)
    asm volatile(
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;\n"
        "cp.async.bulk.commit_group;" ::"l"(out),
        "r"(static_cast<unsigned>(__cvta_generic_to_shared(row))), "r"(4 * C)
        : "memory");
}
