// Tries: the event after the plan may be recorded when its last kernel has ended. The last kernel here starts by
// programmatic dependence as soon as all blocks of the first have started, does nothing and waits for nothing, so
// that it ends long before the work.
/*--- cultivar
name: ends_before_its_work
task: softmax
target: cuda
about: "Its second kernel ends before the first, which does all the work"
requires: "dtype == f32"
launch:
  - kernel: rows
    grid: ["min(R, 4 * num_sms)", 1, 1]
    block: [128, 1, 1]
    args: [x, y, R, C]
  - kernel: finish
    grid: [1, 1, 1]
    block: [32, 1, 1]
    programmatic_dependent: true
    args: [y]
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

extern "C" __global__ void rows(const float* x, float* y, int R, int C) {
  __shared__ float partial[4];
  asm volatile("griddepcontrol.launch_dependents;");
  for (int row = blockIdx.x; row < R; row += gridDim.x) {
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

extern "C" __global__ void finish(float*) {}
