// Tries: the judge leaves its own kernels out when it compares CUPTI's times with the events. A kernel with the name of one
// would not be counted.
/*--- cultivar
name: has_the_name_of_a_judges_kernel
task: softmax
target: cuda
about: "Has the name of the kernel that stamps the clock"
requires: "dtype == f32"
launch:
  - kernel: cultivar_stamp
    grid: [R, 1, 1]
    block: [128, 1, 1]
    args: [x, y, C]
---*/

extern "C" __global__ void cultivar_stamp(const float* x, float* y, int C) {
  for (int c = threadIdx.x; c < C; c += 128) y[static_cast<long long>(blockIdx.x) * C + c] = x[c];
}
