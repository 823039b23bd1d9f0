/*--- cultivar
name: reads_the_clock
task: softmax
target: cuda
about: "Times itself"
requires: "dtype == f32"
launch:
  - kernel: softmax
    grid: [R, 1, 1]
    block: [32, 1, 1]
    args: [x, y, C]
---*/
extern "C" __global__ void softmax(const float* x, float* y, int C) {
  const long long begin = clock64();
  y[blockIdx.x * C + threadIdx.x] = x[blockIdx.x * C + threadIdx.x] + (begin == 1);
}
