/*--- cultivar
name: two_kernels
task: softmax
target: cuda
about: "One kernel computes a row's maximum and sum, the next scales; constant tables, a zeroed counter, and a sine as example"
requires: "dtype == f32"
workspace:
  statistics: {bytes: "8 * R"}
  finished: {bytes: 4, zero: true}
launch:
  - kernel: row_statistics
    grid: [R, 1, 1]
    block: [32, 1, 1]
    args: [x, statistics, finished, C]
  - kernel: scale_rows
    grid: [R, 1, 1]
    block: [256, 1, 1]
    programmatic_dependent: true
    args: [x, statistics, y, C, {value: "0.5 / C", type: f32}]
---*/
// Tables that are only read: all of them pass the screen.
constexpr int kFirst = 16;
static __device__ const float halves[4] = {0.5f, 0.25f, 0.125f, 0.0625f};
__constant__ int steps[5] = {16, 8, 4, 2, 1};

extern "C" __global__ void row_statistics(const float* x, float* statistics, unsigned* finished, int C) {
  const float* in = x + static_cast<long long>(blockIdx.x) * C;
  float top = __int_as_float(0xff800000), sum = 0.0f;
  for (int c = threadIdx.x; c < C; c += 32) top = fmaxf(top, in[c]);
  for (int i = 0; i < 5; ++i) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, steps[i]));
  for (int c = threadIdx.x; c < C; c += 32) sum += expf(in[c] - top);
  for (int step = kFirst; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  if (threadIdx.x == 0) {
    statistics[2 * blockIdx.x] = top;
    statistics[2 * blockIdx.x + 1] = sum;
    atomicAdd(finished, 1u);
  }
}

extern "C" __global__ void scale_rows(const float* x, const float* statistics, float* y, int C, float tiny) {
  asm volatile("griddepcontrol.wait;" ::: "memory");
  static const float signs[3] = {1.0f, -1.0f, 0.0f};
  const float top = statistics[2 * blockIdx.x], sum = statistics[2 * blockIdx.x + 1];
  const float nothing = (sinf(tiny) - sinf(tiny)) * halves[C & 3] * signs[C % 3];
  for (int c = threadIdx.x; c < C; c += 256) {
    const long long at = static_cast<long long>(blockIdx.x) * C + c;
    y[at] = expf(x[at] - top) / sum + nothing;
  }
}
