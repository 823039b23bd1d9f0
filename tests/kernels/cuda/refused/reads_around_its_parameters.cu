// Tries: parameters lie in memory of the driver, between the arguments of other launches: addresses and seeds of the judge.
// The address of a parameter leads there.
/*--- cultivar
name: reads_around_its_parameters
task: softmax
target: cuda
about: "Reads the memory around a parameter by its generic address"
requires: "dtype == f32"
launch:
  - kernel: softmax
    grid: [R, 1, 1]
    block: [128, 1, 1]
    args: [x, y, C]
---*/

extern "C" __global__ void softmax(const float* x, float* y, const __grid_constant__ int C) {
  const volatile unsigned* const words = reinterpret_cast<const volatile unsigned*>(&C);
  y[static_cast<long long>(blockIdx.x) * C + threadIdx.x] = __uint_as_float(words[static_cast<int>(threadIdx.x) - 64]);
}
