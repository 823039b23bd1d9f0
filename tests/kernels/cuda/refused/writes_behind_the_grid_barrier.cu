/*--- cultivar
name: writes_behind_the_grid_barrier
task: softmax
target: cuda
about: "Counts its launches in the driver's memory beside the barrier"
requires: "dtype == f32"
launch:
  - kernel: softmax
    grid: [R, 1, 1]
    block: [32, 1, 1]
    args: [x, y, C]
    cooperative: true
---*/
extern "C" __global__ void softmax(const float* x, float* y, int C) {
  unsigned high, low;
  asm volatile("mov.u32 %0, %%envreg1;" : "=r"(high));
  asm volatile("mov.u32 %0, %%envreg2;" : "=r"(low));
  auto* state = reinterpret_cast<volatile unsigned*>(static_cast<unsigned long long>(high) << 32 | low);
  state[16] += 1;
  y[blockIdx.x * C + threadIdx.x] = static_cast<float>(state[16]);
}
