/*--- cultivar
name: k48_matmul_panels
task: matmul
target: cpu
about: "Rows of B are taken in panels of 256 where B does not fit into the last-level cache, at once otherwise."
requires: "dtype == f32"
let:
  panel: "4 * K * N > l3_bytes ? 256 : K"
launch:
  - kernel: matmul
    threads: num_cores
    args: [a, b, c, M, N, K, {value: panel, type: i32}, thread, threads]
---*/
#include <cstddef>
extern "C" void matmul(const float* a, const float* b, float* c, int M, int N, int K, int panel, int thread,
                       int threads) {
  float sums[4][512];
  const int panels = K / panel;
  for (int p = 0; p < panels; ++p) {
    const int k0 = p * panel, k1 = k0 + panel;
    for (int first = thread * 4; first < M; first += threads * 4) {
      const int rows = M - first < 4 ? M - first : 4;
      for (int left = 0; left < N; left += 512) {
        const int columns = N - left < 512 ? N - left : 512;
        for (int r = 0; r < rows; ++r) {
          const float* before = c + static_cast<std::ptrdiff_t>(first + r) * N + left;
          for (int n = 0; n < columns; ++n) sums[r][n] = p == 0 ? 0.0f : before[n];
        }
        for (int k = k0; k < k1; ++k) {
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
  }
}
