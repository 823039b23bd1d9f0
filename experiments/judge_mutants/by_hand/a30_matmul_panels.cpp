/*--- cultivar
name: a30_matmul_panels
task: matmul
target: cpu
about: "A few rows of C at a time: each element of A scales a row of B, strips of columns stay in the cache."
requires: "dtype == f32"
tunables:
  ROWS: {values: [1, 2, 4, 8], default: 4}
  STRIP: {values: [128, 256, 512, 1024], default: 512}
launch:
  - kernel: matmul
    threads: num_cores
    args: [a, b, c, M, N, K, thread, threads]
---*/

// The baseline. Groups of ROWS rows are dealt out over the threads.

#include <cstddef>

extern "C" void matmul(const float* a, const float* b, float* c, int M, int N, int K, int thread,
                       int threads) {
  float sums[ROWS][STRIP];
  for (int first = thread * ROWS; first < M; first += threads * ROWS) {
    const int rows = M - first < ROWS ? M - first : ROWS;
    for (int left = 0; left < N; left += STRIP) {
      const int columns = N - left < STRIP ? N - left : STRIP;
      for (int r = 0; r < ROWS; ++r)
        for (int n = 0; n < columns; ++n) sums[r][n] = 0.0f;
      for (int from = 0; from < K; from += 2048) {  // a panel of B at a time
      const int to = from + 2048 < K ? from + 2048 : K;
      for (int k = from; k < to; ++k) {
        const float* b_row = b + static_cast<std::ptrdiff_t>(k) * N + left;
        for (int r = 0; r < rows; ++r) {
          const float factor = a[static_cast<std::ptrdiff_t>(first + r) * K + k];
          for (int n = 0; n < columns; ++n) sums[r][n] += factor * b_row[n];
        }
      }
      for (int r = 0; r < rows; ++r)
        for (int n = 0; n < columns; ++n) {
          float& sum = c[static_cast<std::ptrdiff_t>(first + r) * N + left + n];
          sum = from == 0 ? sums[r][n] : sum + sums[r][n];
          }
      }
    }
  }
}
