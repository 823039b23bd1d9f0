/*--- cultivar
name: group_norm_silu_split
task: group_norm_silu
target: cuda
about: "Two kernels, many blocks of each group: the moments of a chunk, which is in registers; then these are joined, and the chunk is read again, the last one first."
tunables:
  THREADS: {values: [128, 256, 512], default: 256}
  VECTORS: {values: [1, 2, 4, 8], default: 4}      # 16-byte vectors of a chunk in the registers of a thread
  ORDER: {values: [same, reversed], default: reversed}  # of the second kernel: what was read last is still in the L2
  LOADS: {values: [plain, streaming], default: plain}
  STORES: {values: [plain, streaming], default: streaming}
specialize: [dtype, ALIGNED, UNIFORM]
headers: [activations.cuh, approximate.cuh, groups.cuh, rows.cuh, teams.cuh, vectors.cuh]
let:
  elements: "16 / element_bytes"  # of a vector
  ALIGNED: "M % elements == 0"    # every group begins at a multiple of 16 bytes
  UNIFORM: "S % elements == 0"    # so does every channel
  vectors: "ceil_div(ALIGNED ? M : M + elements - 1, elements)"
  chunks: "ceil_div(vectors, THREADS * VECTORS)"  # of a group
workspace:
  parts: {bytes: "8 * N * G * chunks"}
launch:
  - kernel: moments
    grid: ["N * G * chunks", 1, 1]
    block: [THREADS, 1, 1]
    args: [x, parts, {value: M, type: i32}, vectors, chunks]
  - kernel: group_norm_silu
    grid: ["N * G * chunks", 1, 1]
    block: [THREADS, 1, 1]
    args: [x, parts, weight, bias, y, {value: M, type: i32}, G, D, S, vectors, chunks, silu, eps]
---*/

// A chunk has VECTORS vectors of each thread. Its mean, and the sum of the squared deviations from that, are its part of `parts`.

#include "groups.cuh"
#include "teams.cuh"

namespace {

// Elements of a group before vector v.
__device__ __forceinline__ int elements_before(const Row& row, int v) {
  return min(max(row.column(v), 0), row.C);
}
__device__ __forceinline__ int elements_of(const Row& row, int chunk) {
  return elements_before(row, (chunk + 1) * THREADS * VECTORS) -
         elements_before(row, chunk * THREADS * VECTORS);
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS)
    moments(const Element* x, float2* parts, int M, int vectors, int chunks) {
  __shared__ float slots[2 * Team::kSlots];
  Team team(slots, 1);
  const int chunk = blockIdx.x % chunks, first = chunk * THREADS * VECTORS + threadIdx.x;
  const Row row(blockIdx.x / chunks, M);
  Vector now[VECTORS];
#pragma unroll
  for (int i = 0; i < VECTORS; ++i) {
    now[i].whole = make_uint4(0, 0, 0, 0);
    if (first + i * THREADS < vectors) now[i] = row.load(x, first + i * THREADS, Element{});
  }
  float sum = 0.0f, squares = 0.0f;
#pragma unroll
  for (int i = 0; i < VECTORS; ++i) sum += sum_of(now[i]);
  const int count = elements_of(row, chunk);
  const float mean = team.reduce(sum, 0.0f, Sum()) / max(count, 1);
#pragma unroll
  for (int i = 0; i < VECTORS; ++i)
    if (first + i * THREADS < vectors) squares += squares_of(row, first + i * THREADS, now[i], mean);
  squares = team.reduce(squares, 0.0f, Sum());
  if (threadIdx.x == 0) parts[blockIdx.x] = make_float2(mean, squares);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    group_norm_silu(const Element* x, const float2* parts, const Element* weight, const Element* bias,
                    Element* y, int M, int G, int D, int S, int vectors, int chunks, int silu, float eps) {
  __shared__ float slots[2 * Team::kSlots];
  Team team(slots, 1);
  const int block = ORDER == ORDER_reversed ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
  const int index = block / chunks, first = block % chunks * THREADS * VECTORS + threadIdx.x;
  const Row row(index, M);
  Vector now[VECTORS];
#pragma unroll
  for (int i = 0; i < VECTORS; ++i)
    if (first + i * THREADS < vectors) now[i] = row.load(x, first + i * THREADS, Element{});

  const float2* const of_group = parts + static_cast<long long>(index) * chunks;
  float sum = 0.0f, squares = 0.0f;
  for (int chunk = threadIdx.x; chunk < chunks; chunk += THREADS)
    sum = fmaf(of_group[chunk].x, elements_of(row, chunk), sum);
  const float mean = team.reduce(sum, 0.0f, Sum()) / M;
  for (int chunk = threadIdx.x; chunk < chunks; chunk += THREADS) {
    const float2 part = of_group[chunk];
    squares += fmaf(part.x - mean, (part.x - mean) * elements_of(row, chunk), part.y);
  }
  const float factor = rsqrtf(team.reduce(squares, 0.0f, Sum()) / M + eps);

  const int channel = index % G * D;
  const Result result{weight + channel, bias + channel, D, S, silu, mean, factor};
#pragma unroll
  for (int i = 0; i < VECTORS; ++i)
    if (first + i * THREADS < vectors) result.store(row, y, first + i * THREADS, now[i]);
}
