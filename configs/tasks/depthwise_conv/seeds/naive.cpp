/*--- cultivar
name: depthwise_conv_naive
task: depthwise_conv
target: cpu
about: "One output at a time: the sum over those elements of the kernel that lie on the image."
requires: "dtype == f32"
let:
  team: "num_cores"
launch:
  - kernel: depthwise_conv
    threads: team
    args: [x, weight, bias, y, N, H, W, C, KH, KW, pad_top, pad_left, silu, thread, threads]
---*/

// The baseline: pixels are dealt out evenly over the threads. Any shape is taken.

#include <cmath>
#include <cstddef>

extern "C" void depthwise_conv(const float* x, const float* weight, const float* bias, float* y, int N, int H,
                               int W, int C, int KH, int KW, int pad_top, int pad_left, int silu, int thread,
                               int threads) {
  const std::ptrdiff_t pixels = static_cast<std::ptrdiff_t>(N) * H * W;
  const std::ptrdiff_t last = pixels * (thread + 1) / threads;
  for (std::ptrdiff_t pixel = pixels * thread / threads; pixel < last; ++pixel) {
    const std::ptrdiff_t w = pixel % W, h = pixel / W % H;
    for (int c = 0; c < C; ++c) {
      float sum = 0.0f;
      for (int i = 0; i < KH; ++i) {
        const std::ptrdiff_t row = h + i - pad_top;
        if (row < 0 || row >= H) continue;
        for (int j = 0; j < KW; ++j) {
          const std::ptrdiff_t column = w + j - pad_left;
          if (column < 0 || column >= W) continue;
          sum += x[(pixel + (row - h) * W + column - w) * C + c] *
                 weight[(static_cast<std::ptrdiff_t>(c) * KH + i) * KW + j];
        }
      }
      sum += bias[c];
      y[pixel * C + c] = silu ? sum / (1.0f + std::exp(-sum)) : sum;
    }
  }
}
