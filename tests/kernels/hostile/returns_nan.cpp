/*--- cultivar
name: returns_nan
task: softmax
target: cpu
about: "NaN everywhere."
requires: "dtype == f32"
launch:
  - kernel: softmax
    threads: num_cores
    args: [x, y, R, C, thread, threads]
---*/

#include <cmath>

extern "C" void softmax(const float* x, float* y, int R, int C, int thread, int threads) {
  (void)x;
  for (long i = thread; i < (long)R * C; i += threads) y[i] = NAN;
}
