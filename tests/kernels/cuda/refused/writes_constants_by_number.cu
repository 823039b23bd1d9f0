/*--- cultivar
name: writes_constants_by_number
task: softmax
target: cuda
about: "Writes constant memory at address 0, without its variable's name"
requires: "dtype == f32"
launch:
  - kernel: softmax
    grid: [R, 1, 1]
    block: [32, 1, 1]
    args: [x, y, C]
---*/
__constant__ unsigned state[4];

extern "C" __global__ void softmax(const float* x, float* y, int C) {
  unsigned long long address;
  asm volatile("cvta.const.u64 %0, %1;" : "=l"(address) : "l"(0ull));
  const unsigned before = atomicAdd(reinterpret_cast<unsigned*>(address), 1u);
  y[blockIdx.x * C + threadIdx.x] = static_cast<float>(before) + state[C & 3];
}
