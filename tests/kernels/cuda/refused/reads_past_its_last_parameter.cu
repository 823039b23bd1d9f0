// Tries: the same with an offset that is a number.
/*--- cultivar
name: reads_past_its_last_parameter
task: softmax
target: cuda
about: "Reads 512 bytes behind its last parameter"
requires: "dtype == f32"
launch:
  - kernel: softmax
    grid: [R, 1, 1]
    block: [128, 1, 1]
    args: [x, y, C]
---*/

extern "C" __global__ void softmax(const float* x, float* y, int C) {
  unsigned word;
  asm volatile("ld.param.u32 %0, [softmax_param_2+512];" : "=r"(word));
  y[static_cast<long long>(blockIdx.x) * C + threadIdx.x] = __uint_as_float(word);
}
