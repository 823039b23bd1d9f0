/*--- cultivar
name: group_norm_silu_group_in_registers
task: group_norm_silu
target: cuda
about: "A group in the registers of a part of a warp, a block or a cluster; vectors of 16 bytes; the variance is of deviations from the mean."
tunables:
  VECTORS: {values: [1, 2, 4, 8], default: 4}     # 16-byte vectors of a group in the registers of a thread
  BLOCK: {values: [128, 256, 512], default: 256}  # threads of a block, which has several groups if they are small
  WIDE: {values: [256, 512], default: 512}        # threads of a block for groups that need more: up to 8 blocks, a cluster
  SPREAD: {values: [0, 1], default: 1}            # few groups: a cluster for each, so that all multiprocessors work
  LOADS: {values: [plain, streaming], default: streaming}
  STORES: {values: [plain, streaming], default: streaming}
specialize: [dtype, PER, ALIGNED, UNIFORM]
headers: [activations.cuh, approximate.cuh, groups.cuh, rows.cuh, teams.cuh, vectors.cuh]
let:
  elements: "16 / element_bytes"  # of a vector
  ALIGNED: "M % elements == 0"    # every group begins at a multiple of 16 bytes
  UNIFORM: "S % elements == 0"    # so does every channel
  vectors: "ceil_div(ALIGNED ? M : M + elements - 1, elements)"
  PER: "vectors <= 32 ? 1 : (ceil_div(vectors, VECTORS) > 8 * WIDE ? 8 : VECTORS)"  # of a thread; what is left is read again
  need: "PER == 1 && vectors <= 32 ? 2 ^ ceil(log2(vectors)) : round_up(ceil_div(vectors, PER), 32)"
  fitting: "need > WIDE ? min(8, 2 ^ ceil(log2(need / WIDE))) : 1"
  idle: "SPREAD && N * G * 2 <= num_sms ? min(8, 2 ^ floor(log2(num_sms / (N * G)))) : 1"
  blocks: "max(fitting, min(idle, 2 ^ floor(log2(max(1, vectors / 256)))))"  # of a group
  lanes: "blocks > 1 ? min(WIDE, round_up(ceil_div(vectors, blocks), 32)) : need"
  together: "blocks > 1 ? 1 : max(1, min(floor(BLOCK / lanes), round_up(max(1, floor(N * G / num_sms)), ceil_div(32, lanes))))"
launch:
  - kernel: group_norm_silu
    grid: ["ceil_div(N * G, together) * blocks", 1, 1]
    block: [lanes, together, 1]
    cluster: [blocks, 1, 1]
    args: [x, weight, bias, y, {value: "N * G", type: i32}, {value: M, type: i32}, G, D, S, vectors, blocks, silu, eps]
---*/

// A group is read once, by 16 bytes, and stays in registers, PER vectors of a thread. Vectors beyond these (of the largest groups
// only) are read again for each pass. `together` small groups share a block; a large group has a cluster of blocks.

#include "groups.cuh"
#include "teams.cuh"

extern "C" __global__ void __launch_bounds__(BLOCK > WIDE ? BLOCK : WIDE)
    group_norm_silu(const Element* x, const Element* weight, const Element* bias, Element* y, int rows, int M,
                    int G, int D, int S, int vectors, int blocks, int silu, float eps) {
  __shared__ float slots[2 * Team::kSlots];
  Team team(slots, blocks);
  const int first = blockIdx.x % blocks * blockDim.x + threadIdx.x, stride = blockDim.x * blocks;
  const int index = blockIdx.x / blocks * blockDim.y + threadIdx.y;
  const Row row(index, M);
  const int end = index < rows ? vectors : 0;

  Vector now[PER];
#pragma unroll
  for (int i = 0; i < PER; ++i) {
    now[i].whole = make_uint4(0, 0, 0, 0);
    if (first + i * stride < end) now[i] = row.load(x, first + i * stride, Element{});
  }
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < PER; ++i) sum += sum_of(now[i]);
  for (int v = first + PER * stride; v < end; v += stride) sum += sum_of(row.load(x, v, Element{}));
  const float mean = team.reduce(sum, 0.0f, Sum()) / M;

  float squares = 0.0f;
#pragma unroll
  for (int i = 0; i < PER; ++i)
    if (first + i * stride < end) squares += squares_of(row, first + i * stride, now[i], mean);
  for (int v = first + PER * stride; v < end; v += stride)
    squares += squares_of(row, v, row.load(x, v, Element{}), mean);
  const float factor = rsqrtf(team.reduce(squares, 0.0f, Sum()) / M + eps);

  const int channel = index % G * D;
  const Result result{weight + channel, bias + channel, D, S, silu, mean, factor};
#pragma unroll
  for (int i = 0; i < PER; ++i)
    if (first + i * stride < end) result.store(row, y, first + i * stride, now[i]);
  for (int v = first + PER * stride; v < end; v += stride) result.store(row, y, v, row.load(x, v, Element{}));
  team.end();
}
