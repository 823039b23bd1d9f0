/*--- cultivar
name: keeps_what_is_there
task: softmax
target: cuda
about: "Writes nothing and relies on an old output"
requires: "dtype == f32"
launch:
  - kernel: softmax
    grid: [R, 1, 1]
    block: [128, 1, 1]
    args: [x, y, C]
---*/
extern "C" __global__ void softmax(const float* x, float* y, int C) {
  if (x == nullptr) y[C] = 0.0f;
}
