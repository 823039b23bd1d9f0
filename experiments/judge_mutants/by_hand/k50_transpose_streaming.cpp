/*--- cultivar
name: k50_transpose_streaming
task: transpose
target: cpu
about: "Tiles of 16 by 16; matrices that are far beyond the last-level cache are written past it."
requires: "dtype == f32"
let:
  past: "8 * R * C > 3 * l3_bytes"
launch:
  - kernel: transpose
    threads: num_cores
    args: [x, y, B, R, C, {value: past, type: i32}, thread, threads]
---*/
#include <immintrin.h>

#include <cstddef>
extern "C" void transpose(const float* x, float* y, int B, int R, int C, int past, int thread, int threads) {
  const std::ptrdiff_t strips = (C + 15) / 16, all = B * strips;
  for (std::ptrdiff_t strip = all * thread / threads; strip < all * (thread + 1) / threads; ++strip) {
    const std::ptrdiff_t matrix = strip / strips * R * C, left = strip % strips * 16,
                         right = left + 16 < C ? left + 16 : C;
    std::ptrdiff_t top = 0;
    for (; top + 16 <= R; top += 16)
      for (std::ptrdiff_t c = left; c < right; ++c) {
        float column[16];
        for (std::ptrdiff_t r = 0; r < 16; ++r) column[r] = x[matrix + (top + r) * C + c];
        float* out = y + matrix + c * R + top;
        if (past)
          _mm512_stream_ps(out, _mm512_loadu_ps(column));
        else
          _mm512_storeu_ps(out, _mm512_loadu_ps(column));
      }
    for (; top < R; ++top)
      for (std::ptrdiff_t c = left; c < right; ++c) y[matrix + c * R + top] = x[matrix + top * C + c];
  }
  _mm_sfence();
}
