/*--- cultivar
name: more_threads_than_it_promises
task: softmax
target: cuda
about: "The blocks have more threads than the launch bounds allow"
requires: "dtype == f32"
launch:
  - kernel: softmax
    grid: [R, 1, 1]
    block: [256, 1, 1]
    args: [x, y, C]
---*/
extern "C" __global__ void __launch_bounds__(64) softmax(const float* x, float* y, int C) {
  y[blockIdx.x * C + threadIdx.x] = x[blockIdx.x * C + threadIdx.x];
}
