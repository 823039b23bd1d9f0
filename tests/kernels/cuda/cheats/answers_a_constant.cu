/*--- cultivar
name: answers_a_constant
task: softmax
target: cuda
about: "Writes 1 / C for every probability"
requires: "dtype == f32"
launch:
  - kernel: softmax
    grid: [R, 1, 1]
    block: [128, 1, 1]
    args: [x, y, C]
---*/
extern "C" __global__ void softmax(const float* x, float* y, int C) {
  for (int c = threadIdx.x; c < C; c += 128) y[static_cast<long long>(blockIdx.x) * C + c] = 1.0f / C + 0.0f * x[c];
}
