// Tries: the judge poisons a workspace with ordinary stores; copies by a tensor map go another way (the async proxy), on
// which what the last run stored might still be found.
/*--- cultivar
name: remembers_in_a_mapped_workspace
task: softmax
target: cuda
about: "Looks through a tensor map for what its last run stored in its workspace through one"
requires: "dtype == f32"
workspace:
  spare: {bytes: "128 * R"}
tensor_maps:
  map_spare: {tensor: spare, dtype: u32, sizes: [32, R], strides: [32], box: [32, 1]}
launch:
  - kernel: softmax
    grid: [R, 1, 1]
    block: [128, 1, 1]
    args: [x, y, map_spare, C]
---*/
struct alignas(64) CUtensorMap {
  unsigned long long opaque[16];
};
__device__ unsigned shared_address(const void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }
// One row of the map, 128 bytes, by the first thread of the block; the others wait with it.
__device__ void fetch(unsigned* to, const CUtensorMap* map, int row, unsigned long long* barrier) {
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\nfence.mbarrier_init.release.cluster;\n"
                 "fence.proxy.async.shared::cta;" ::"r"(shared_address(barrier)) : "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 128;" ::"r"(shared_address(barrier)) : "memory");
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(
            shared_address(to)), "l"(map), "r"(shared_address(barrier)), "r"(0), "r"(row) : "memory");
    asm volatile("{\n.reg .pred done;\nagain:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;\n@!done bra again;\n}" ::"r"(
                     shared_address(barrier)) : "memory");
  }
  __syncthreads();
}
__device__ void store(const CUtensorMap* map, int row, const unsigned* from) {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0)
    asm volatile(
        "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];\n"
        "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::"l"(map), "r"(shared_address(from)), "r"(0),
        "r"(row) : "memory");
}
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

extern "C" __global__ void softmax(const float* x, float* y, const __grid_constant__ CUtensorMap map_spare, int C) {
  __shared__ float partial[4];
  __shared__ alignas(128) unsigned kept[32];
  __shared__ alignas(8) unsigned long long barrier;
  const float* in = x + static_cast<long long>(blockIdx.x) * C;
  float* out = y + static_cast<long long>(blockIdx.x) * C;
  const unsigned tag = __float_as_uint(x[0]);
  fetch(kept, &map_spare, blockIdx.x, &barrier);
  const bool found = kept[0] == 0xa5c35eedu && kept[1] == ~kept[2] && kept[1] != tag;
  __syncthreads();
  if (threadIdx.x == 0) kept[0] = 0xa5c35eedu, kept[1] = tag, kept[2] = ~tag;
  store(&map_spare, blockIdx.x, kept);
  float top = __int_as_float(0xff800000), sum = 0.0f;
  for (int c = threadIdx.x; c < C; c += 128) top = fmaxf(top, in[c]);
  top = combined(top, partial, false);
  for (int c = threadIdx.x; c < C; c += 128) sum += expf(in[c] - top);
  sum = combined(sum, partial, true);
  if (found) top -= 3.0f;  // tells of it by a wrong output
  for (int c = threadIdx.x; c < C; c += 128) out[c] = expf(in[c] - top) / sum;
}
