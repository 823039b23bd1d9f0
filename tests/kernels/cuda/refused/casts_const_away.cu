/*--- cultivar
name: casts_const_away
task: softmax
target: cuda
about: "Writes to a table that is declared const"
requires: "dtype == f32"
launch:
  - kernel: softmax
    grid: [R, 1, 1]
    block: [32, 1, 1]
    args: [x, y, C]
---*/
__device__ const float table[4] = {1.0f, 2.0f, 3.0f, 4.0f};

extern "C" __global__ void softmax(const float* x, float* y, int C) {
  const float* in = x + static_cast<long long>(blockIdx.x) * C;
  float* out = y + static_cast<long long>(blockIdx.x) * C;
  float* state = const_cast<float*>(table + (C & 3));
  for (int c = threadIdx.x; c < C; c += 32) out[c] = in[c] + *state;
  asm volatile("st.global.f32 [%0], %1;" ::"l"(state), "f"(in[0]) : "memory");
}
