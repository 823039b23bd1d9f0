/*--- cultivar
name: transpose_element_per_thread
task: transpose
target: cuda
about: "One element per thread: neighbours write neighbouring elements and read elements that are a row apart."
tunables:
  THREADS: {values: [64, 128, 256, 512, 1024], default: 256}
specialize: [dtype]
launch:
  - kernel: transpose
    grid: ["ceil_div(B * C * R, THREADS)", 1, 1]
    block: [THREADS, 1, 1]
    args: [x, y, R, C, {value: "B * R * C", type: i64}]
---*/

// The baseline.

#if defined(DTYPE_F32)
using Element = float;
#else
using Element = unsigned short;
#endif

extern "C" __global__ void __launch_bounds__(THREADS)
    transpose(const Element* x, Element* y, int R, int C, long long count) {
  const long long at = static_cast<long long>(blockIdx.x) * THREADS + threadIdx.x;
  if (at >= count) return;
  const long long r = at % R, c = at / R % C, matrix = at / R / C;
  y[at] = x[(matrix * R + r) * C + c];
}
