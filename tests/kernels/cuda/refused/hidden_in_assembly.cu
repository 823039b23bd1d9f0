/*--- cultivar
name: hidden_in_assembly
task: softmax
target: cuda
about: "Declares its state inside an asm statement, where C++ does not see it"
requires: "dtype == f32"
launch:
  - kernel: softmax
    grid: [R, 1, 1]
    block: [32, 1, 1]
    args: [x, y, C]
---*/
extern "C" __global__ void softmax(const float* x, float* y, int C) {
  const float* in = x + static_cast<long long>(blockIdx.x) * C;
  float* out = y + static_cast<long long>(blockIdx.x) * C;
  unsigned before;
  asm volatile("{\n.global .u32 state;\natom.global.add.u32 %0, [state], 1;\n}" : "=r"(before)::"memory");
  for (int c = threadIdx.x; c < C; c += 32) out[c] = in[c] + static_cast<float>(before);
}
