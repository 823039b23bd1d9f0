// Tries: parameters lie in memory of the driver, which outlives the launch. A store to the address of one keeps state there, or
// changes the arguments of another launch.
/*--- cultivar
name: writes_its_parameters
task: softmax
target: cuda
about: "Stores to the generic address of a parameter"
requires: "dtype == f32"
launch:
  - kernel: softmax
    grid: [R, 1, 1]
    block: [128, 1, 1]
    args: [x, y, C]
---*/

extern "C" __global__ void softmax(const float* x, float* y, const __grid_constant__ int C) {
  *const_cast<volatile int*>(&C) = 7;
  y[static_cast<long long>(blockIdx.x) * C + threadIdx.x] = 1.0f;
}
