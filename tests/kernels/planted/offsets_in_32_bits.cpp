/*--- cultivar
name: offsets_in_32_bits
task: softmax
target: cpu
about: "A row's offset is a product of ints: from 2^31 elements on, rows are read and written before the tensors."
requires: "dtype == f32"
launch:
  - kernel: softmax
    threads: num_cores
    args: [x, y, R, C, thread, threads]
---*/
#include <cmath>

extern "C" void softmax(const float* x, float* y, int R, int C, int thread, int threads) {
  for (int row = thread; row < R; row += threads) {
    const int offset = row * C;
    float top = x[offset], sum = 0.0f;
    for (int c = 1; c < C; ++c) top = x[offset + c] > top ? x[offset + c] : top;
    for (int c = 0; c < C; ++c) sum += y[offset + c] = std::exp(x[offset + c] - top);
    for (int c = 0; c < C; ++c) y[offset + c] /= sum;
  }
}
