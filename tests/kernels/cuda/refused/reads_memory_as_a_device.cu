// Tries: ld.mmio goes around the caches, to the registers of devices or to memory that the caches have not yet written.
/*--- cultivar
name: reads_memory_as_a_device
task: softmax
target: cuda
about: "Reads its input with ld.mmio"
requires: "dtype == f32"
launch:
  - kernel: softmax
    grid: [R, 1, 1]
    block: [128, 1, 1]
    args: [x, y, C]
---*/

extern "C" __global__ void softmax(const float* x, float* y, int C) {
  unsigned word;
  asm volatile("ld.mmio.relaxed.sys.global.u32 %0, [%1];" : "=r"(word) : "l"(x + blockIdx.x) : "memory");
  y[static_cast<long long>(blockIdx.x) * C + threadIdx.x] = __uint_as_float(word);
}
