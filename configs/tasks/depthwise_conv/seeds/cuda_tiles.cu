/*--- cultivar
name: depthwise_conv_tiles
task: depthwise_conv
target: cuda
about: "A tile of the image with its border and the weights of its channels in shared memory; a thread has a strip of outputs times 16 bytes of channels in registers."
requires: "KH <= 32 && KW <= 32"
tunables:
  THREADS: {values: [64, 128, 256], default: 128}
  CHANNELS: {values: [1, 2, 4, 8], default: 4}        # 16-byte vectors of channels of a tile
  TILE_H: {values: [2, 4, 8, 14, 16], default: 8}     # rows of a tile of outputs
  TILE_W: {values: [8, 14, 16, 28, 32], default: 28}  # its columns; where the kernel has one row, a tile is one row of TILE_H * TILE_W
  STRIP: {values: [1, 2, 3, 4, 5, 7, 8], default: 7}  # outputs of a thread: odd numbers have fewer conflicts in shared memory
  LOADS: {values: [plain, streaming, async], default: async}
  STORES: {values: [plain, streaming], default: streaming}
constraints: ["smem <= smem_max"]
specialize: [dtype, ALIGNED, COLUMNS, TOGETHER]
headers: [approximate.cuh, activations.cuh, vectors.cuh]
let:
  elements: "16 / element_bytes"    # of a vector
  ALIGNED: "C % elements == 0"      # every pixel begins at a multiple of 16 bytes
  COLUMNS: "min(KW, 8)"             # of the kernel, whose weights are in registers at a time
  columns: "round_up(KW, COLUMNS)"  # zeros behind the last
  large: "KH > 8 || KW > 8"
  TOGETHER: "large ? 1 : CHANNELS"  # vectors of a tile
  groups: "ceil_div(C, elements * TOGETHER)"
  most_h: "KH == 1 ? 1 : (large ? min(TILE_H, 4) : TILE_H)"
  most_w: "KH == 1 && !large ? TILE_H * TILE_W : TILE_W"
  tiles_h: "ceil_div(H, most_h)"
  tiles_w: "ceil_div(W, most_w)"
  tile_h: "ceil_div(H, tiles_h)"
  tile_w: "round_up(ceil_div(W, tiles_w), STRIP)"
  held_h: "tile_h + KH - 1"                     # rows of the image in shared memory
  pitch: "tile_w + columns - 1 + (tile_w + columns) % 2"  # pixels of such a row, an odd number
  smem: "held_h * pitch * TOGETHER * 16 + (KH * columns + 1) * TOGETHER * elements * 4"
launch:
  - kernel: depthwise_conv
    grid: ["groups * tiles_w * tiles_h * N", 1, 1]
    block: [THREADS, 1, 1]
    shared: smem
    args: [x, weight, bias, y, H, W, C, KH, KW, pad_top, pad_left, silu, groups, tiles_h, tiles_w, tile_h, tile_w, pitch, columns]
---*/

// What lies outside of the image is zero in shared memory, so that the loops over the kernel have no conditions. The weights are
// there as floats, [row and column of the kernel, channel], with the bias behind them.

#include "activations.cuh"
#include "vectors.cuh"

namespace {

enum : int { kAsync = LOADS == LOADS_async && ALIGNED, kChannels = TOGETHER * kVector };

// 16 bytes, or zeros.
__device__ __forceinline__ void copy_async(uint4* to, const Element* from, bool inside) {
  const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(inside ? 16 : 0)
               : "memory");
}

// `count` of the elements, and zeros.
__device__ __forceinline__ Vector load_some(const Element* from, int count) {
  Vector vector;
  vector.whole = make_uint4(0, 0, 0, 0);
  if (ALIGNED) {
    if (count > 0) vector.whole = load_whole(from);
  } else {
#pragma unroll
    for (int e = 0; e < kVector; ++e)
      if (e < count) vector.part[e] = from[e];
  }
  return vector;
}

__device__ __forceinline__ float widened(Element x) {
  Vector one;
  one.whole = make_uint4(0, 0, 0, 0);
  one.part[0] = x;
  float values[kVector];
  widen(one, values);
  return values[0];
}

__device__ __forceinline__ void load_floats(const float* from, float (&to)[kVector]) {
#pragma unroll
  for (int e = 0; e < kVector; e += 4) {
    const float4 four = *reinterpret_cast<const float4*>(from + e);
    to[e] = four.x, to[e + 1] = four.y, to[e + 2] = four.z, to[e + 3] = four.w;
  }
}

// Adds to the sums of a strip what one row of the image and COLUMNS columns of the kernel give.
__device__ __forceinline__ void add_columns(const uint4* pixels, const float* weights,
                                            float (&sums)[STRIP][kVector]) {
  float of_taps[COLUMNS][kVector];
#pragma unroll
  for (int j = 0; j < COLUMNS; ++j) load_floats(weights + j * kChannels, of_taps[j]);
#pragma unroll
  for (int q = 0; q < STRIP + COLUMNS - 1; ++q) {
    Vector pixel;
    pixel.whole = pixels[q * TOGETHER];
    float values[kVector];
    widen(pixel, values);
#pragma unroll
    for (int s = 0; s < STRIP; ++s) {
      if (q < s || q - s >= COLUMNS) continue;
#pragma unroll
      for (int e = 0; e < kVector; ++e) sums[s][e] = fmaf(values[e], of_taps[q - s][e], sums[s][e]);
    }
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS)
    depthwise_conv(const Element* x, const Element* weight, const Element* bias, Element* y, int H, int W,
                   int C, int KH, int KW, int pad_top, int pad_left, int silu, int groups, int tiles_h,
                   int tiles_w, int tile_h, int tile_w, int pitch, int columns) {
  extern __shared__ uint4 image[];  // [held_h, pitch, TOGETHER], then the weights
  const int held_h = tile_h + KH - 1;
  float* const weights = reinterpret_cast<float*>(image + held_h * pitch * TOGETHER);
  float* const biases = weights + KH * columns * kChannels;
  int block = blockIdx.x;
  const int first_c = block % groups * kChannels;
  block /= groups;
  const int first_w = block % tiles_w * tile_w;
  block /= tiles_w;
  const int first_h = block % tiles_h * tile_h;
  const long long pixels = static_cast<long long>(block / tiles_h) * H * W;  // of the images before

  const int v = threadIdx.x % TOGETHER,
            c = first_c + v * kVector;  // of all that this thread copies and computes
  for (int place = threadIdx.x / TOGETHER, held = 0; held < held_h; place += THREADS / TOGETHER) {
    for (; place >= pitch; place -= pitch) ++held;
    if (held >= held_h) break;
    const int row = first_h - pad_top + held, column = first_w - pad_left + place;
    const bool inside = c < C && column >= 0 && column < W && row >= 0 && row < H;
    const Element* const from = inside ? x + (pixels + static_cast<long long>(row) * W + column) * C + c : x;
    uint4* const to = image + (held * pitch + place) * TOGETHER + v;
    if (kAsync)
      copy_async(to, from, inside);
    else
      *to = load_some(from, inside ? C - c : 0).whole;
  }
  // The weights of these channels lie together, channel after channel.
  for (int at = threadIdx.x; at < kChannels * KH * columns; at += THREADS) {
    const int j = at % columns, i = at / columns % KH, channel = at / columns / KH;
    const long long tap = (static_cast<long long>(first_c + channel) * KH + i) * KW + j;
    weights[(i * columns + j) * kChannels + channel] =
        j < KW && first_c + channel < C ? widened(weight[tap]) : 0.0f;
  }
  for (int channel = threadIdx.x; channel < kChannels; channel += THREADS)
    biases[channel] = first_c + channel < C ? widened(bias[first_c + channel]) : 0.0f;
  if (kAsync) asm volatile("cp.async.wait_all;" ::: "memory");
  __syncthreads();

  const int strips = tile_w / STRIP;
  for (int item = threadIdx.x / TOGETHER; item < tile_h * strips; item += THREADS / TOGETHER) {
    const int h = item % tile_h, w = item / tile_h * STRIP;
    if (first_h + h >= H || first_w + w >= W || c >= C) continue;
    float sums[STRIP][kVector] = {};
#pragma unroll 1
    for (int i = 0; i < KH; ++i)
      for (int j = 0; j < columns; j += COLUMNS)
        add_columns(image + ((h + i) * pitch + w + j) * TOGETHER + v,
                    weights + (i * columns + j) * kChannels + v * kVector, sums);
    float of_bias[kVector];
    load_floats(biases + v * kVector, of_bias);
#pragma unroll
    for (int s = 0; s < STRIP; ++s) {
      if (first_w + w + s >= W) break;
#pragma unroll
      for (int e = 0; e < kVector; ++e) {
        const float sum = sums[s][e] + of_bias[e];
        sums[s][e] = silu ? silu_of(sum) : sum;
      }
      Element* const to = y + (pixels + static_cast<long long>(first_h + h) * W + first_w + w + s) * C + c;
      const Vector result = narrow(sums[s]);
      if (ALIGNED) {
        store_whole(to, result.whole);
      } else {
#pragma unroll
        for (int e = 0; e < kVector; ++e)
          if (c + e < C) to[e] = result.part[e];
      }
    }
  }
}
