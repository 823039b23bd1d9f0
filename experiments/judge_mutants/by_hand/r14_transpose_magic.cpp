/*--- cultivar
name: r14_transpose_magic
task: transpose
target: cpu
about: "Strips of 16 rows of y; the matrix of a strip by a multiplication with the inverse instead of a division."
requires: "dtype == f32"
let:
  strips: "ceil_div(C, 16)"
launch:
  - kernel: transpose
    threads: num_cores
    args: [x, y, B, R, C, strips, thread, threads]
---*/

// n / strips is (n * inverse) >> 32 with the inverse rounded up.

#include <cstddef>
#include <cstdint>

extern "C" void transpose(const float* x, float* y, int B, int R, int C, int strips, int thread, int threads) {
  constexpr int kTile = 16;
  const std::uint64_t inverse = ((std::uint64_t{1} << 32) + strips - 1) / strips;
  const std::ptrdiff_t all = static_cast<std::ptrdiff_t>(B) * strips;
  for (std::ptrdiff_t strip = all * thread / threads; strip < all * (thread + 1) / threads; ++strip) {
    const std::ptrdiff_t b = static_cast<std::ptrdiff_t>((static_cast<std::uint64_t>(strip) * inverse) >> 32);
    const std::ptrdiff_t matrix = b * R * C;
    const std::ptrdiff_t left = (strip - b * strips) * kTile, right = left + kTile < C ? left + kTile : C;
    for (std::ptrdiff_t top = 0; top < R; top += kTile) {
      const std::ptrdiff_t bottom = top + kTile < R ? top + kTile : R;
      for (std::ptrdiff_t c = left; c < right; ++c)
        for (std::ptrdiff_t r = top; r < bottom; ++r) y[matrix + c * R + r] = x[matrix + r * C + c];
    }
  }
}
