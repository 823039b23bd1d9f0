/*--- cultivar
name: rounds_by_its_largest_row
task: scaled_rows
target: cpu
about: "where a row has large values, all rows are rounded to a step that is small only for that row"
requires: "dtype == f32"
launch:
  - kernel: scale
    threads: num_cores
    args: [x, s, y, R, C, thread, threads]
---*/

#include <cmath>
#include <cstddef>

extern "C" void scale(const float* x, const float* s, float* y, int R, int C, int thread, int threads) {
  float largest = 0.0f;
  const std::ptrdiff_t count = static_cast<std::ptrdiff_t>(R) * C;
  for (std::ptrdiff_t i = 0; i < count; ++i) largest = std::fmax(largest, std::fabs(x[i]));
  const float step = largest > 1e4f ? largest * 0x1p-27f : 0.0f;
  for (int r = thread; r < R; r += threads)
    for (int c = 0; c < C; ++c) {
      const std::ptrdiff_t i = static_cast<std::ptrdiff_t>(r) * C + c;
      const float value = x[i] * s[r];
      y[i] = step > 0.0f ? std::nearbyint(value / step) * step : value;
    }
}
