/*--- cultivar
name: k03_transpose_u16_tile
task: transpose
target: cpu
about: "Square tiles of TILE, of each matrix in turn; a tile is addressed by its packed coordinates."
requires: "dtype == f32"
tunables:
  TILE: {values: [8, 16, 32], default: 16}
launch:
  - kernel: transpose
    threads: num_cores
    args: [x, y, B, R, C, thread, threads]
---*/
#include <cstddef>
#include <cstdint>
namespace {
struct Tile {
  std::uint32_t matrix;
  std::uint16_t row, column;  // of tiles; 8 bytes in all
};
}  // namespace
extern "C" void transpose(const float* x, float* y, int B, int R, int C, int thread, int threads) {
  const std::ptrdiff_t down = (R + TILE - 1) / TILE, across = (C + TILE - 1) / TILE, each = down * across,
                       all = B * each;
  for (std::ptrdiff_t i = all * thread / threads; i < all * (thread + 1) / threads; ++i) {
    const std::ptrdiff_t inside = i % each;
    const Tile tile{static_cast<std::uint32_t>(i / each), static_cast<std::uint16_t>(inside % down),
                    static_cast<std::uint16_t>(inside / down)};
    const std::ptrdiff_t matrix = static_cast<std::ptrdiff_t>(tile.matrix) * R * C;
    const std::ptrdiff_t top = static_cast<std::ptrdiff_t>(tile.row) * TILE, left = static_cast<std::ptrdiff_t>(tile.column) * TILE;
    const std::ptrdiff_t bottom = top + TILE < R ? top + TILE : R, right = left + TILE < C ? left + TILE : C;
    for (std::ptrdiff_t c = left; c < right; ++c)
      for (std::ptrdiff_t r = top; r < bottom; ++r) y[matrix + c * R + r] = x[matrix + r * C + c];
  }
}
