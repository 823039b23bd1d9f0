/*--- cultivar
name: reads_the_global_timer
task: softmax
target: cuda
about: "Reads the time"
requires: "dtype == f32"
launch:
  - kernel: softmax
    grid: [R, 1, 1]
    block: [32, 1, 1]
    args: [x, y, C]
---*/
extern "C" __global__ void softmax(const float* x, float* y, int C) {
  long long begin;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  y[blockIdx.x * C + threadIdx.x] = x[blockIdx.x * C + threadIdx.x] + (begin == 1);
}
