/*--- cultivar
name: silu_mul_element_per_thread
task: silu_mul
target: cuda
about: "One element per thread, no vectors."
tunables:
  THREADS: {values: [64, 128, 256, 512, 1024], default: 256}
specialize: [dtype]
launch:
  - kernel: silu_mul
    grid: ["ceil_div(R * C, THREADS)", 1, 1]
    block: [THREADS, 1, 1]
    args: [gate, up, y, {value: "R * C", type: i64}]
---*/

// The baseline.

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
    silu_mul(const Element* gate, const Element* up, Element* y, long long count) {
  const long long at = static_cast<long long>(blockIdx.x) * THREADS + threadIdx.x;
  if (at >= count) return;
  const float x = widened(gate[at]);
  y[at] = narrowed(x / (1.0f + expf(-x)) * widened(up[at]));
}
