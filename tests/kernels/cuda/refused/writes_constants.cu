/*--- cultivar
name: writes_constants
task: softmax
target: cuda
about: "Writes a __constant__ variable through its generic address"
requires: "dtype == f32"
launch:
  - kernel: softmax
    grid: [R, 1, 1]
    block: [32, 1, 1]
    args: [x, y, C]
---*/
__constant__ unsigned state[4];

extern "C" __global__ void softmax(const float* x, float* y, int C) {
  const float* in = x + static_cast<long long>(blockIdx.x) * C;
  float* out = y + static_cast<long long>(blockIdx.x) * C;
  unsigned long long address;
  asm volatile("cvta.const.u64 %0, %1;" : "=l"(address) : "l"(__cvta_generic_to_constant(state)));
  const unsigned before = atomicAdd(reinterpret_cast<unsigned*>(address), 1u);
  for (int c = threadIdx.x; c < C; c += 32) out[c] = in[c] + static_cast<float>(before);
}
