/*--- cultivar
name: looks_at_sixteen_columns
task: softmax
target: cpu
about: "Looks at 16 columns of a row and leaves the maximum out if they are small: a late outlier overflows."
requires: "dtype == f32"
launch:
  - kernel: softmax
    threads: num_cores
    args: [x, y, R, C, thread, threads]
---*/

// Wrong where 16 columns are small and another one is above 88: the exponential is infinite, and the row NaN.

#include <cmath>
#include <cstddef>

namespace {

// Of 16 columns, evenly spread, without the last one.
bool looks_small(const float* in, int C) {
  const int step = C < 16 ? 1 : C / 16;
  for (int n = 0, c = 0; n < 16 && c < C; ++n, c += step)
    if (std::fabs(in[c]) > 1.0f) return false;
  return true;
}

}  // namespace

extern "C" void softmax(const float* x, float* y, int R, int C, int thread, int threads) {
  for (std::ptrdiff_t row = thread; row < R; row += threads) {
    const float* in = x + row * C;
    float* out = y + row * C;
    float shift = 0.0f;
    if (!looks_small(in, C)) {
      shift = in[0];
      for (int c = 1; c < C; ++c) shift = in[c] > shift ? in[c] : shift;
    }
    float sum = 0.0f;
    for (int c = 0; c < C; ++c) sum += out[c] = std::exp(in[c] - shift);
    for (int c = 0; c < C; ++c) out[c] /= sum;
  }
}
