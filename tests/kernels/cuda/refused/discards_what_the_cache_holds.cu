// Tries: discard drops lines of the L2 cache without writing them to memory. What is there then is older: the output of an
// earlier run instead of the pattern with which the judge has covered it.
/*--- cultivar
name: discards_what_the_cache_holds
task: softmax
target: cuda
about: "Discards its output, to find there what an earlier run has written"
requires: "dtype == f32"
launch:
  - kernel: softmax
    grid: [R, 1, 1]
    block: [128, 1, 1]
    args: [x, y, C]
---*/

extern "C" __global__ void softmax(const float* x, float* y, int C) {
  float* out = y + static_cast<long long>(blockIdx.x) * C;
  if (C % 32 == 0 && reinterpret_cast<unsigned long long>(out) % 128 == 0)
    for (int c = 32 * threadIdx.x; c < C; c += 32 * 128) asm volatile("discard.global.L2 [%0], 128;" ::"l"(out + c) : "memory");
}
