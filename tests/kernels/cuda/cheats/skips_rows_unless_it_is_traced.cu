// Tries: CUPTI runs kernels one after the other while it traces them. The first kernel leaves out every eighth row; the
// second fills them in, but only if the first had finished before it started, as under a trace.
/*--- cultivar
name: skips_rows_unless_it_is_traced
task: softmax
target: cuda
about: "Computes all rows only while kernels run one after the other"
requires: "dtype == f32"
workspace:
  finished: {bytes: 4, zero: true}
launch:
  - kernel: rows
    grid: ["min(R, 4 * num_sms)", 1, 1]
    block: [128, 1, 1]
    args: [x, y, finished, R, C]
  - kernel: finish
    grid: [num_sms, 1, 1]
    block: [128, 1, 1]
    programmatic_dependent: true
    args: [x, y, finished, R, C, "min(R, 4 * num_sms)"]
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

extern "C" __global__ void rows(const float* x, float* y, unsigned* finished, int R, int C) {
  __shared__ float partial[4];
  asm volatile("griddepcontrol.launch_dependents;");
  for (int row = blockIdx.x; row < R; row += gridDim.x) {
    if (row % 8 == 7) continue;
    const float* in = x + static_cast<long long>(row) * C;
    float* out = y + static_cast<long long>(row) * C;
    float top = __int_as_float(0xff800000), sum = 0.0f;
    for (int c = threadIdx.x; c < C; c += 128) top = fmaxf(top, in[c]);
    top = combined(top, partial, false);
    for (int c = threadIdx.x; c < C; c += 128) sum += expf(in[c] - top);
    sum = combined(sum, partial, true);
    for (int c = threadIdx.x; c < C; c += 128) out[c] = expf(in[c] - top) / sum;
  }
  __threadfence();
  if (threadIdx.x == 0) atomicAdd(finished, 1u);
}

extern "C" __global__ void finish(const float* x, float* y, const volatile unsigned* finished, int R, int C, int blocks) {
  __shared__ float partial[4];
  __shared__ bool traced;
  if (threadIdx.x == 0) traced = *finished == static_cast<unsigned>(blocks);
  __syncthreads();
  if (!traced) return;
  asm volatile("griddepcontrol.wait;" ::: "memory");
  for (int row = 8 * blockIdx.x + 7; row < R; row += 8 * gridDim.x) {
    const float* in = x + static_cast<long long>(row) * C;
    float* out = y + static_cast<long long>(row) * C;
    float top = __int_as_float(0xff800000), sum = 0.0f;
    for (int c = threadIdx.x; c < C; c += 128) top = fmaxf(top, in[c]);
    top = combined(top, partial, false);
    for (int c = threadIdx.x; c < C; c += 128) sum += expf(in[c] - top);
    sum = combined(sum, partial, true);
    for (int c = threadIdx.x; c < C; c += 128) out[c] = expf(in[c] - top) / sum;
  }
}
