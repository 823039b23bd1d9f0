/*--- cultivar
name: honest_sorts
task: softmax
target: cpu
about: "Finds the maximum with qsort on a copy from malloc, so that libc does what it does the first time only."
requires: "dtype == f32"
launch:
  - kernel: softmax
    threads: num_cores
    args: [x, y, R, C, thread, threads]
---*/

#include <cmath>
#include <cstdlib>
#include <cstring>

static int compare(const void* a, const void* b) {
  const float left = *(const float*)a, right = *(const float*)b;
  return left < right ? -1 : left > right;
}

extern "C" void softmax(const float* x, float* y, int R, int C, int thread, int threads) {
  for (int r = thread; r < R; r += threads) {
    const float* in = x + (long)r * C;
    float* out = y + (long)r * C;
    float* sorted = (float*)std::malloc(sizeof(float) * C);
    std::memcpy(sorted, in, sizeof(float) * C);
    std::qsort(sorted, C, sizeof(float), compare);
    const float top = sorted[C - 1];
    std::free(sorted);
    float sum = 0.0f;
    for (int c = 0; c < C; ++c) sum += out[c] = std::exp(in[c] - top);
    for (int c = 0; c < C; ++c) out[c] /= sum;
  }
}
