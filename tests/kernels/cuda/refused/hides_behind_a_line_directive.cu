/*--- cultivar
name: hides_behind_a_line_directive
task: softmax
target: cuda
about: "Puts an instruction after a .loc on the same line, where a line-based reader misses it"
requires: "dtype == f32"
launch:
  - kernel: softmax
    grid: [R, 1, 1]
    block: [32, 1, 1]
    args: [x, y, C]
---*/
__device__ float state = 1.0f;

extern "C" __global__ void softmax(const float* x, float* y, int C) {
  const float* in = x + static_cast<long long>(blockIdx.x) * C;
  float* out = y + static_cast<long long>(blockIdx.x) * C;
  for (int c = threadIdx.x; c < C; c += 32) out[c] = in[c] + state;
  asm volatile("\n.loc 1 1 1 st.global.f32 [state], %0;" ::"f"(in[0]) : "memory");
}
