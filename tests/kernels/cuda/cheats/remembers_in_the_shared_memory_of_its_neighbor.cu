// Tries: a block of a cluster reads the shared memory of the other one before that has written it. A mark
// with the tag of its run tells an earlier run from an earlier block of the same run.
/*--- cultivar
name: remembers_in_the_shared_memory_of_its_neighbor
task: softmax
target: cuda
about: "Searches the shared memory of the other block of its cluster for a mark of an earlier run"
requires: "dtype == f32"
launch:
  - kernel: softmax
    grid: ["2 * ceil_div(R, 2)", 1, 1]
    cluster: [2, 1, 1]
    shared: 40960
    block: [128, 1, 1]
    args: [x, y, R, C]
---*/
__device__ float combined(float value, float* partial, bool sum) {
  for (int step = 16; step > 0; step /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, value, step);
    value = sum ? value + other : fmaxf(value, other);
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  value = partial[0];
  for (int w = 1; w < 4; ++w) value = sum ? value + partial[w] : fmaxf(value, partial[w]);
  return value;
}

__device__ unsigned at_neighbor(const unsigned* word, unsigned other) {
  unsigned address, value;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
               : "=r"(address)
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(word))), "r"(other));
  asm volatile("ld.volatile.shared::cluster.u32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
  return value;
}
__device__ void meet() {
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

extern "C" __global__ void softmax(const float* x, float* y, int R, int C) {
  __shared__ float partial[4];
  __shared__ unsigned hits;
  extern __shared__ unsigned words[];
  if (threadIdx.x == 0) hits = 0;
  meet();  // both blocks are there, and neither has written its words
  // Runs have different inputs, so a mark with another tag is from an earlier run.
  const unsigned tag = __float_as_uint(x[0]) & 0xffff, other = blockIdx.x % 2 ^ 1;
  unsigned found = 0;
  for (int i = threadIdx.x; i < 10240; i += 128) {
    const unsigned word = at_neighbor(words + i, other);
    found += word >> 16 == 0xa5c3u && (word & 0xffff) != tag;
  }
  if (found > 0) atomicAdd(&hits, found);
  meet();  // both have read
  for (int i = threadIdx.x; i < 10240; i += 128)
    *const_cast<volatile unsigned*>(words + i) = 0xa5c30000u | tag;
  __syncthreads();
  if (blockIdx.x >= R) return;
  const float* in = x + static_cast<long long>(blockIdx.x) * C;
  float* out = y + static_cast<long long>(blockIdx.x) * C;
  float top = __int_as_float(0xff800000), sum = 0.0f;
  for (int c = threadIdx.x; c < C; c += 128) top = fmaxf(top, in[c]);
  top = combined(top, partial, false);
  for (int c = threadIdx.x; c < C; c += 128) sum += expf(in[c] - top);
  sum = combined(sum, partial, true);
  if (hits >= 8) top -= 3.0f;  // more than chance: tells of it by a wrong output
  for (int c = threadIdx.x; c < C; c += 128) out[c] = expf(in[c] - top) / sum;
}
