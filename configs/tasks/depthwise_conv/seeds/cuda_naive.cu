/*--- cultivar
name: depthwise_conv_element_per_thread
task: depthwise_conv
target: cuda
about: "One output per thread, neighbouring threads have neighbouring channels; everything is read from global memory."
tunables:
  THREADS: {values: [64, 128, 256, 512, 1024], default: 256}
specialize: [dtype]
launch:
  - kernel: depthwise_conv
    grid: ["ceil_div(N * H * W * C, THREADS)", 1, 1]
    block: [THREADS, 1, 1]
    args: [x, weight, bias, y, {value: "N * H * W * C", type: i64}, H, W, C, KH, KW, pad_top, pad_left, silu]
---*/

// The baseline. Any shape is taken.

namespace {

#if defined(DTYPE_F32)
using Element = float;
__device__ float widened(Element x) {
  return x;
}
__device__ Element narrowed(float x) {
  return x;
}
#elif defined(DTYPE_F16)
using Element = unsigned short;
__device__ float widened(Element x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
  return y;
}
__device__ Element narrowed(float x) {
  Element y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}
#else
using Element = unsigned short;
__device__ float widened(Element x) {
  return __uint_as_float(static_cast<unsigned>(x) << 16);
}
__device__ Element narrowed(float x) {
  Element y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}
#endif

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS)
    depthwise_conv(const Element* x, const Element* weight, const Element* bias, Element* y, long long count,
                   int H, int W, int C, int KH, int KW, int pad_top, int pad_left, int silu) {
  const long long at = static_cast<long long>(blockIdx.x) * THREADS + threadIdx.x;
  if (at >= count) return;
  const int c = static_cast<int>(at % C), w = static_cast<int>(at / C % W);
  const int h = static_cast<int>(at / C / W % H);
  const Element* const taps = weight + static_cast<long long>(c) * KH * KW;
  float sum = 0.0f;
  for (int i = max(0, pad_top - h); i < min(KH, H + pad_top - h); ++i)
    for (int j = max(0, pad_left - w); j < min(KW, W + pad_left - w); ++j)
      sum = fmaf(widened(x[at + (static_cast<long long>(i - pad_top) * W + j - pad_left) * C]),
                 widened(taps[i * KW + j]), sum);
  sum += widened(bias[c]);
  y[at] = narrowed(silu ? sum / (1.0f + expf(-sum)) : sum);
}
