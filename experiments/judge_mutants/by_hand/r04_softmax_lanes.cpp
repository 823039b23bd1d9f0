/*--- cultivar
name: r04_softmax_lanes
task: softmax
target: cpu
about: "Narrow rows: 32 lanes for each row, whatever its width, as a warp has them; wide rows one at a time."
requires: "dtype == f32"
launch:
  - kernel: softmax
    threads: num_cores
    args: [x, y, R, C, thread, threads]
---*/

// Rows of at most 32 columns are copied to a vector padded with -infinity, so that all loops have 32 steps and no remainder.
// Slots, 32 to a row, are dealt out over the threads in whole rows.

#include <cmath>
#include <cstddef>

namespace {

constexpr int kLanes = 32;

void narrow(const float* in, float* out, int C) {
  float lanes[kLanes];
  for (int l = 0; l < kLanes; ++l) lanes[l] = l < C ? in[l] : -INFINITY;
  float top = lanes[0];
  for (int l = 1; l < kLanes; ++l) top = lanes[l] > top ? lanes[l] : top;
  float sum = 0.0f;
  for (int l = 0; l < kLanes; ++l) {
    lanes[l] = std::exp(lanes[l] - top);
    sum += lanes[l];
  }
  for (int l = 0; l < C; ++l) out[l] = lanes[l] / sum;
}

void wide(const float* in, float* out, int C) {
  float top = in[0];
  for (int c = 1; c < C; ++c) top = in[c] > top ? in[c] : top;
  float sum = 0.0f;
  for (int c = 0; c < C; ++c) {
    out[c] = std::exp(in[c] - top);
    sum += out[c];
  }
  for (int c = 0; c < C; ++c) out[c] /= sum;
}

}  // namespace

extern "C" void softmax(const float* x, float* y, int R, int C, int thread, int threads) {
  if (C <= kLanes) {
    const int slots = R * kLanes;
    for (int slot = thread * kLanes; slot < slots; slot += threads * kLanes) {
      const std::ptrdiff_t row = slot / kLanes;
      narrow(x + row * C, y + row * C, C);
    }
    return;
  }
  for (std::ptrdiff_t row = thread; row < R; row += threads) wide(x + row * C, y + row * C, C);
}
