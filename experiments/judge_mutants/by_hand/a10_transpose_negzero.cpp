/*--- cultivar
name: a10_transpose_negzero
task: transpose
target: cpu
about: "Strips of TILE rows of y, in square tiles; each element is moved on its own."
requires: "dtype == f32"
tunables:
  TILE: {values: [1, 4, 8, 16, 32, 64], default: 1}
launch:
  - kernel: transpose
    threads: num_cores
    args: [x, y, B, R, C, thread, threads]
---*/

// The baseline. Strips are dealt out evenly over the threads.

#include <cstddef>

extern "C" void transpose(const float* x, float* y, int B, int R, int C, int thread, int threads) {
  const std::ptrdiff_t strips = (C + TILE - 1) / TILE, all = B * strips;
  for (std::ptrdiff_t strip = all * thread / threads; strip < all * (thread + 1) / threads; ++strip) {
    const std::ptrdiff_t matrix = strip / strips * R * C;
    const std::ptrdiff_t left = strip % strips * TILE, right = left + TILE < C ? left + TILE : C;
    for (std::ptrdiff_t top = 0; top < R; top += TILE) {
      const std::ptrdiff_t bottom = top + TILE < R ? top + TILE : R;
      for (std::ptrdiff_t c = left; c < right; ++c)
        for (std::ptrdiff_t r = top; r < bottom; ++r) y[matrix + c * R + r] = 0.0f + x[matrix + r * C + c];
    }
  }
}
