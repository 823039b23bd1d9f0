/*--- cultivar
name: calls_what_is_not_there
task: softmax
target: cuda
about: "Calls a function of another file"
requires: "dtype == f32"
launch:
  - kernel: softmax
    grid: [R, 1, 1]
    block: [32, 1, 1]
    args: [x, y, C]
---*/
extern "C" __device__ float elsewhere(float);

extern "C" __global__ void softmax(const float* x, float* y, int C) {
  y[blockIdx.x * C] = elsewhere(x[0]);
}
