/*--- cultivar
name: r03_matmul_stack
task: matmul
target: cpu
about: "One row of C at a time in a buffer on the stack, of which each element of A adds a scaled row of B; rows or columns are dealt out."
requires: "dtype == f32"
launch:
  - kernel: matmul
    threads: num_cores
    args: [a, b, c, M, N, K, thread, threads]
---*/

// The sums of a row are kept in a local buffer, which the compiler knows not to overlap with a and b.

#include <cstddef>
#include <cstring>

extern "C" void matmul(const float* a, const float* b, float* c, int M, int N, int K, int thread, int threads) {
  float* sums = static_cast<float*>(__builtin_alloca(sizeof(float) * N));
  for (int m = thread; m < M; m += threads) {
    for (int n = 0; n < N; ++n) sums[n] = 0.0f;
    const float* a_row = a + static_cast<std::ptrdiff_t>(m) * K;
    for (int k = 0; k < K; ++k) {
      const float factor = a_row[k];
      const float* b_row = b + static_cast<std::ptrdiff_t>(k) * N;
      for (int n = 0; n < N; ++n) sums[n] += factor * b_row[n];
    }
    std::memcpy(c + static_cast<std::ptrdiff_t>(m) * N, sums, sizeof(float) * N);
  }
}
