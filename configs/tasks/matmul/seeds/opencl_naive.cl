/*--- cultivar
name: matmul_opencl_naive
task: matmul
target: opencl
about: "One work item for ROWS rows and COLUMNS columns of C, in registers; each reads A and B as they lie."
requires: "dtype == f32"
tunables:
  ROWS: {values: [1, 2, 4, 6, 8], default: 1}
  COLUMNS: {values: [1, 8, 16, 24, 32], default: 1}
  DEPTH: {values: [32, 128, 512, 4096], default: 4096}  # of K at a time, so that a strip of B stays in a cache
  ITEMS: {values: [1, 4, 16], default: 1}  # work items of a group, one below the other
launch:
  - kernel: matmul
    global: ["round_up(ceil_div(M, ROWS), ITEMS)", "ceil_div(N, COLUMNS)", 1]
    local: [ITEMS, 1, 1]
    args: [a, b, c, M, N, K]
---*/

// The baseline. Any shape is taken.

__kernel void matmul(__global const float* a, __global const float* b, __global float* c, int M, int N, int K) {
  const int top = get_global_id(0) * ROWS, left = get_global_id(1) * COLUMNS;
  if (top >= M) return;
  const int rows = min(ROWS, M - top), columns = min(COLUMNS, N - left);
  a += (size_t)top * K;
  b += left;
  c += (size_t)top * N + left;
  if (rows < ROWS || columns < COLUMNS) {
    for (int r = 0; r < rows; ++r)
      for (int n = 0; n < columns; ++n) {
        float sum = 0.0f;
        for (int k = 0; k < K; ++k) sum += a[(size_t)r * K + k] * b[(size_t)k * N + n];
        c[(size_t)r * N + n] = sum;
      }
    return;
  }
  for (int from = 0; from < K || from == 0; from += DEPTH) {
    float sums[ROWS][COLUMNS];
    for (int r = 0; r < ROWS; ++r)
      for (int n = 0; n < COLUMNS; ++n) sums[r][n] = from == 0 ? 0.0f : c[(size_t)r * N + n];
    const int end = min(from + DEPTH, K);
    for (int k = from; k < end; ++k)
      for (int r = 0; r < ROWS; ++r) {
        const float factor = a[(size_t)r * K + k];
        for (int n = 0; n < COLUMNS; ++n) sums[r][n] += factor * b[(size_t)k * N + n];
      }
    for (int r = 0; r < ROWS; ++r)
      for (int n = 0; n < COLUMNS; ++n) c[(size_t)r * N + n] = sums[r][n];
  }
}
