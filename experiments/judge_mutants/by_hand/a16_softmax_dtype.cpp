/*--- cultivar
name: a16_softmax_dtype
task: softmax
target: cpu
about: "One row at a time in three plain loops: maximum, exponentials and their sum, division."
specialize: [dtype]
let:
  team: "num_cores"
launch:
  - kernel: softmax
    threads: team
    args: [x, y, R, C, thread, threads]
---*/

// The baseline: rows are dealt out evenly over the threads. Any shape is taken.

#include <cmath>
#include <cstddef>
#include <cstring>

#ifdef DTYPE_BF16
inline float value(DTYPE x) {
  const unsigned bits = static_cast<unsigned>(x) << 16;
  float f;
  std::memcpy(&f, &bits, 4);
  return f;
}
inline DTYPE rounded(float f) {
  unsigned bits;
  std::memcpy(&bits, &f, 4);
  return static_cast<DTYPE>((bits + 0x8000u) >> 16);
}
#else
inline float value(DTYPE x) {
  return x;
}
inline DTYPE rounded(float f) {
  return static_cast<DTYPE>(f);
}
#endif

extern "C" void softmax(const DTYPE* x, DTYPE* y, int R, int C, int thread, int threads) {
  const std::ptrdiff_t first = static_cast<std::ptrdiff_t>(R) * thread / threads;
  const std::ptrdiff_t last = static_cast<std::ptrdiff_t>(R) * (thread + 1) / threads;
  for (std::ptrdiff_t row = first; row < last; ++row) {
    const DTYPE* in = x + row * C;
    DTYPE* out = y + row * C;
    float maximum = -INFINITY;
    for (int c = 0; c < C; ++c) {
      if (value(in[c]) > maximum) maximum = value(in[c]);
    }
    float sum = 0.0f;
    for (int c = 0; c < C; ++c) {
      out[c] = rounded(std::exp(value(in[c]) - maximum));
      sum = value(rounded(sum + value(out[c])));  // as the tensor is kept
    }
    for (int c = 0; c < C; ++c) out[c] = rounded(value(out[c]) / sum);
  }
}
