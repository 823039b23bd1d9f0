/*--- cultivar
name: r11_matmul_stream
task: matmul
target: cpu
about: "Stream-K: steps of 8 of all tiles of 8 x 16 are dealt out evenly, so that no thread waits; tiles that threads share are added afterwards."
requires: "dtype == f32"
let:
  team: "num_cores"
workspace:
  shared: {bytes: "4 * team * 2 * 128"}
launch:
  - kernel: products
    threads: team
    args: [a, b, c, shared, M, N, K, thread, threads]
  - kernel: add_shared
    threads: 1
    args: [c, shared, M, N, K, {value: team, type: i32}]
---*/

// A thread's steps begin and end within a tile; those two parts are written to its slots of the workspace. A tile that lies
// wholly within one thread's steps is written at once.

#include <cstddef>

namespace {

constexpr int kRows = 8, kColumns = 16, kStep = 8;

struct Range {
  int first, last;
};

inline Range range_of(int M, int N, int K, int thread, int threads) {
  const int steps = (M + kRows - 1) / kRows * ((N + kColumns - 1) / kColumns) * ((K + kStep - 1) / kStep);
  const int each = steps / threads, left = steps % threads;  // the first `left` threads have one more
  const int first = thread * each + (thread < left ? thread : left);
  return {first, first + each + (thread < left ? 1 : 0)};
}

}  // namespace

extern "C" void products(const float* a, const float* b, float* c, float* shared, int M, int N, int K, int thread,
                         int threads) {
  const int across = (N + kColumns - 1) / kColumns, deep = (K + kStep - 1) / kStep;
  const Range range = range_of(M, N, K, thread, threads);
  for (int step = range.first; step < range.last;) {
    const int tile = step / deep, begin = step % deep;
    const int end = deep - begin < range.last - step ? deep : begin + (range.last - step);
    const int top = tile / across * kRows, left = tile % across * kColumns;
    const int rows = M - top < kRows ? M - top : kRows, columns = N - left < kColumns ? N - left : kColumns;
    float sums[kRows][kColumns] = {};
    const int k_end = end * kStep < K ? end * kStep : K;
    for (int k = begin * kStep; k < k_end; ++k) {
      const float* b_row = b + static_cast<std::ptrdiff_t>(k) * N + left;
      for (int r = 0; r < rows; ++r) {
        const float factor = a[static_cast<std::ptrdiff_t>(top + r) * K + k];
        for (int n = 0; n < columns; ++n) sums[r][n] += factor * b_row[n];
      }
    }
    if (begin == 0 && end == deep) {
      for (int r = 0; r < rows; ++r)
        for (int n = 0; n < columns; ++n) c[static_cast<std::ptrdiff_t>(top + r) * N + left + n] = sums[r][n];
    } else {
      // The first part of this thread in slot 0 unless it begins the tile, which another thread then ends.
      float* slot = shared + (static_cast<std::ptrdiff_t>(thread) * 2 + (begin == 0 ? 1 : 0)) * kRows * kColumns;
      for (int r = 0; r < rows; ++r)
        for (int n = 0; n < columns; ++n) slot[r * kColumns + n] = sums[r][n];
    }
    step += end - begin;
  }
}

extern "C" void add_shared(float* c, const float* shared, int M, int N, int K, int team) {
  const int across = (N + kColumns - 1) / kColumns, deep = (K + kStep - 1) / kStep;
  int begun = -1;  // the tile whose first part has been written to c
  for (int thread = 0; thread < team; ++thread) {
    const Range range = range_of(M, N, K, thread, team);
    for (int step = range.first; step < range.last;) {
      const int tile = step / deep, begin = step % deep;
      const int end = deep - begin < range.last - step ? deep : begin + (range.last - step);
      if (begin == 0 && end == deep) {
        step += (range.last - step) / deep * deep;  // whole tiles
        continue;
      }
      const int top = tile / across * kRows, left = tile % across * kColumns;
      const int rows = M - top < kRows ? M - top : kRows, columns = N - left < kColumns ? N - left : kColumns;
      const float* slot = shared + (static_cast<std::ptrdiff_t>(thread) * 2 + (begin == 0 ? 1 : 0)) * kRows * kColumns;
      for (int r = 0; r < rows; ++r) {
        for (int n = 0; n < columns; ++n) {
          float& out = c[static_cast<std::ptrdiff_t>(top + r) * N + left + n];
          out = begun == tile ? out + slot[r * kColumns + n] : slot[r * kColumns + n];
        }
      }
      begun = tile;
      step += end - begin;
    }
  }
}
