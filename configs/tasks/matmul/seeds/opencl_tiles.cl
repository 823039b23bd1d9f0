/*--- cultivar
name: matmul_opencl_tiles
task: matmul
target: opencl
about: "One work item for a tile of C in vectors of 8: each element of A scales VECTORS vectors of a row of B."
requires: "dtype == f32"
tunables:
  ROWS: {values: [1, 2, 4, 6, 8], default: 4}
  VECTORS: {values: [1, 2, 3, 4], default: 2}
  DEPTH: {values: [64, 128, 256, 512, 4096], default: 4096}  # of K at a time, so that a strip of B stays in a cache
  ITEMS: {values: [1, 2, 4, 8], default: 1}  # work items of a group, one below the other
let:
  columns: "8 * VECTORS"
launch:
  - kernel: matmul
    global: ["round_up(ceil_div(M, ROWS), ITEMS)", "ceil_div(N, columns)", 1]
    local: [ITEMS, 1, 1]
    args: [a, b, c, M, N, K]
---*/

// Any shape is taken: tiles at the edges go element by element.

__kernel void matmul(__global const float* a, __global const float* b, __global float* c, int M, int N, int K) {
  const int top = get_global_id(0) * ROWS, left = get_global_id(1) * 8 * VECTORS;
  if (top >= M) return;
  const int rows = min(ROWS, M - top), columns = min(8 * VECTORS, N - left);
  a += (size_t)top * K;
  b += left;
  c += (size_t)top * N + left;
  if (rows < ROWS || columns < 8 * VECTORS) {
    for (int r = 0; r < rows; ++r)
      for (int n = 0; n < columns; ++n) {
        float sum = 0.0f;
        for (int k = 0; k < K; ++k) sum += a[(size_t)r * K + k] * b[(size_t)k * N + n];
        c[(size_t)r * N + n] = sum;
      }
    return;
  }
  for (int from = 0; from < K; from += DEPTH) {
    float8 sums[ROWS][VECTORS];
#pragma unroll
    for (int r = 0; r < ROWS; ++r)
#pragma unroll
      for (int n = 0; n < VECTORS; ++n) sums[r][n] = from == 0 ? (float8)(0.0f) : vload8(n, c + (size_t)r * N);
    const int end = min(from + DEPTH, K);
    for (int k = from; k < end; ++k) {
      float8 row[VECTORS];
#pragma unroll
      for (int n = 0; n < VECTORS; ++n) row[n] = vload8(n, b + (size_t)k * N);
#pragma unroll
      for (int r = 0; r < ROWS; ++r) {
        const float8 factor = a[(size_t)r * K + k];
#pragma unroll
        for (int n = 0; n < VECTORS; ++n) sums[r][n] += factor * row[n];
      }
    }
#pragma unroll
    for (int r = 0; r < ROWS; ++r)
#pragma unroll
      for (int n = 0; n < VECTORS; ++n) vstore8(sums[r][n], n, c + (size_t)r * N);
  }
}
