/*--- cultivar
name: calls_the_device_runtime
task: softmax
target: cuda
about: "Declares the device runtime's launch function itself"
requires: "dtype == f32"
launch:
  - kernel: softmax
    grid: [R, 1, 1]
    block: [32, 1, 1]
    args: [x, y, C]
---*/
extern "C" __device__ int cudaLaunchDeviceV2_ptsz(void* parameters, void* stream);

extern "C" __global__ void softmax(const float* x, float* y, int C) {
  y[blockIdx.x * C] = static_cast<float>(cudaLaunchDeviceV2_ptsz(y, nullptr)) + x[0];
}
