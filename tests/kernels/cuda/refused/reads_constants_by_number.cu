// Tries: constant memory at an address that is a number, beyond what the kernel declares: arguments of other launches could
// lie there.
/*--- cultivar
name: reads_constants_by_number
task: softmax
target: cuda
about: "Reads constant memory by a number"
requires: "dtype == f32"
launch:
  - kernel: softmax
    grid: [R, 1, 1]
    block: [128, 1, 1]
    args: [x, y, C]
---*/
__constant__ unsigned table[4] = {1, 2, 3, 4};

extern "C" __global__ void softmax(const float* x, float* y, int C) {
  unsigned word;
  asm volatile("ld.const.u32 %0, [%1];" : "=r"(word) : "l"(4ull * threadIdx.x + 4096));
  y[static_cast<long long>(blockIdx.x) * C + threadIdx.x] = static_cast<float>(word + table[C & 3]);
}
