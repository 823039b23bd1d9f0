/*--- cultivar
name: calls_what_it_copied
task: softmax
target: cuda
about: "Fills a workspace with instruction words and calls that"
requires: "dtype == f32"
workspace:
  w: {bytes: 4096}
launch:
  - kernel: softmax
    grid: [R, 1, 1]
    block: [32, 1, 1]
    args: [x, y, w, C]
---*/
__device__ const uint4 code[5] = {
    {0x791b, 0, 0, 0}, {0x7805, 0x5000, 0, 1}, {1, 2, 3, 4}, {5, 6, 7, 8}, {9, 9, 9, 9}};

extern "C" __global__ void softmax(const float* x, float* y, uint4* w, int C) {
  for (int i = 0; i < 4; ++i) w[i] = code[i + (C & 1)];
  __threadfence();
  y[blockIdx.x * C + threadIdx.x] = reinterpret_cast<float (*)(float)>(w)(x[blockIdx.x * C + threadIdx.x]);
}
