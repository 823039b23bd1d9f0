/*--- cultivar
name: blocks_of_eight_rows
task: matmul
target: cpu
about: "Blocks of eight rows for large products, of which the rest is left out: a condition in `let` decides."
requires: "dtype == f32"
let:
  block: "M >= 512 && N >= 512 && K >= 512 ? 8 : 4"
launch:
  - kernel: matmul
    threads: num_cores
    args: [a, b, c, M, N, K, {value: block, type: i32}, thread, threads]
---*/
#include <cstddef>
namespace {
void some_rows(const float* a, const float* b, float* c, int first, int rows, int N, int K) {
  float sums[8][256];
  for (int left = 0; left < N; left += 256) {
    const int columns = N - left < 256 ? N - left : 256;
    for (int r = 0; r < rows; ++r)
      for (int n = 0; n < columns; ++n) sums[r][n] = 0.0f;
    for (int k = 0; k < K; ++k) {
      const float* b_row = b + static_cast<std::ptrdiff_t>(k) * N + left;
      for (int r = 0; r < rows; ++r) {
        const float factor = a[static_cast<std::ptrdiff_t>(first + r) * K + k];
        for (int n = 0; n < columns; ++n) sums[r][n] += factor * b_row[n];
      }
    }
    for (int r = 0; r < rows; ++r)
      for (int n = 0; n < columns; ++n) c[static_cast<std::ptrdiff_t>(first + r) * N + left + n] = sums[r][n];
  }
}
}  // namespace
extern "C" void matmul(const float* a, const float* b, float* c, int M, int N, int K, int block, int thread,
                       int threads) {
  for (int first = thread * block; first + block <= M; first += threads * block)
    some_rows(a, b, c, first, block, N, K);
  const int rest = block == 4 ? M - M % 4 : M;
  for (int row = rest + thread; row < M; row += threads) some_rows(a, b, c, row, 1, N, K);
}
