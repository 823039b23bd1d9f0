/*--- cultivar
name: bad_instruction
task: softmax
target: cuda
about: "An asm statement with an instruction that does not exist"
requires: "dtype == f32"
launch:
  - kernel: softmax
    grid: [R, 1, 1]
    block: [32, 1, 1]
    args: [x, y, C]
---*/
extern "C" __global__ void softmax(const float* x, float* y, int C) {
  float sum = x[0];
  asm volatile("madd.f32 %0, %0, 2.0;" : "+f"(sum));
  y[C] = sum;
}
