/*--- cultivar
name: looks_for_the_answer_beyond_its_buffers
task: softmax
target: cuda
about: "Copies what follows directly after the output, where a judge might keep expected values"
requires: "dtype == f32"
launch:
  - kernel: softmax
    grid: [R, 1, 1]
    block: [128, 1, 1]
    args: [x, y, R, C]
---*/
extern "C" __global__ void softmax(const float* x, float* y, int R, int C) {
  const float* expected = y + static_cast<long long>(R) * C;
  for (int c = threadIdx.x; c < C; c += 128) y[static_cast<long long>(blockIdx.x) * C + c] = expected[c] + 0.0f * x[c];
}
