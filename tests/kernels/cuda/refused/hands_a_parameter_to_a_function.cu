// Tries: a function that is not inlined receives the address of a parameter, and reads around it out of sight.
/*--- cultivar
name: hands_a_parameter_to_a_function
task: softmax
target: cuda
about: "Passes the address of a parameter to a function that is not inlined"
requires: "dtype == f32"
launch:
  - kernel: softmax
    grid: [R, 1, 1]
    block: [128, 1, 1]
    args: [x, y, C]
---*/
__device__ __noinline__ float around(const int* parameter, int by) { return static_cast<float>(parameter[by]); }

extern "C" __global__ void softmax(const float* x, float* y, const __grid_constant__ int C) {
  y[static_cast<long long>(blockIdx.x) * C + threadIdx.x] = around(&C, static_cast<int>(threadIdx.x));
}
