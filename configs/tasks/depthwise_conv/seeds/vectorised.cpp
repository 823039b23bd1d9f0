/*--- cultivar
name: depthwise_conv_vectorised
task: depthwise_conv
target: cpu
about: "A strip of outputs of a row times some vectors of channels in registers; the weights are first transposed to [KH, KW, C]."
requires: "dtype == f32"
tunables:
  WIDTH: {values: [4, 8, 16], default: 8}        # floats of a vector
  VECTORS: {values: [1, 2, 3, 4], default: 2}    # vectors of channels
  STRIP: {values: [1, 2, 3, 4, 5, 6, 8], default: 5}  # outputs of a row, whose sums are in registers
  ORDER: {values: [channels, strips], default: channels}  # of a row: all strips of some channels, or all channels of a strip
  EXP_DEGREE: {values: [5, 6, 7], default: 6}
  CORES_PER_THREAD: {values: [1, 2], default: 1}
constraints:
  - "32 * WIDTH <= max(256, vector_bits)"
let:
  team: "ceil_div(num_cores, CORES_PER_THREAD)"
  padded: "round_up(C, WIDTH)"  # channels of a row of the transposed weights, zeros behind the last
workspace:
  taps: {bytes: "4 * (KH * KW + 1) * padded"}  # the last row is the bias
launch:
  - kernel: transpose_weights
    threads: team
    args: [weight, bias, taps, C, padded, {value: "KH * KW", type: i32}, thread, threads]
  - kernel: depthwise_conv
    threads: team
    args: [x, taps, y, N, H, W, C, padded, KH, KW, pad_top, pad_left, silu, thread, threads]
---*/

// Pixels are dealt out over the threads. Where all columns of the kernel are on the image, STRIP outputs are computed
// at a time, elsewhere one, with the columns that are. The channels past the last whole vector are copied to vectors padded with
// zeros.

#include <cstddef>
#include <cstring>

namespace {

typedef float Vector __attribute__((vector_size(4 * WIDTH), may_alias));
typedef float Loose __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));
typedef int IntVector __attribute__((vector_size(4 * WIDTH), may_alias));

#define UNROLLED _Pragma("GCC unroll 32")

inline Vector broadcast(float value) {
  return value - Vector{};
}

// Minimax polynomials of 2^r on [-1/2, 1/2] with constant term 1: relative error 9.1e-8, 1.9e-9 and 4.0e-11.
#if EXP_DEGREE == 5
constexpr float kExp2[] = {
    1.0f, 6.931469776e-01f, 2.402224210e-01f, 5.550733805e-02f, 9.671512256e-03f, 1.326470620e-03f};
#elif EXP_DEGREE == 6
constexpr float kExp2[] = {1.0f,
                           6.931472057e-01f,
                           2.402264689e-01f,
                           5.550328777e-02f,
                           9.618488761e-03f,
                           1.339993135e-03f,
                           1.534586467e-04f};
#else
constexpr float kExp2[] = {1.0f,
                           6.931471807e-01f,
                           2.402265120e-01f,
                           5.550410354e-02f,
                           9.618027263e-03f,
                           1.333392232e-03f,
                           1.546928867e-04f,
                           1.520197680e-05f};
#endif

// e^z for -87 <= z <= 88; what is beyond counts as -87 or 88.
inline Vector exp_of(Vector z) {
  constexpr float kLog2e = 1.44269504f;
  constexpr float kRounder =
      12582912.0f;  // 1.5 * 2^23: its sum with a float has the nearest integer in the low bits
  z = z > broadcast(-87.0f) ? z : broadcast(-87.0f);
  z = z < broadcast(88.0f) ? z : broadcast(88.0f);
  const Vector shifted = z * kLog2e + kRounder;
  const Vector r = z * kLog2e - (shifted - kRounder);  // fused: the product is not rounded
  Vector p = broadcast(kExp2[EXP_DEGREE]);
  UNROLLED for (int i = EXP_DEGREE - 1; i >= 0; --i) p = p * r + kExp2[i];
  return (Vector)((IntVector)p + ((IntVector)shifted << 23));
}
inline Vector silu_of(Vector v) {
  const Vector bounded =
      v < broadcast(-88.0f) ? Vector{} : v;  // where e^-v is more than exp_of gives, nothing is left
  return bounded / (1.0f + exp_of(-v));
}

// `left` of the channels from `from` on; a whole vector if `whole`.
template <bool whole>
inline Vector load(const float* from, int left) {
  if (whole) return *(const Loose*)from;
  Vector part{};
  std::memcpy(&part, from, sizeof(float) * left);
  return part;
}
template <bool whole>
inline void store(float* to, Vector value, int left) {
  if (whole)
    *(Loose*)to = value;
  else
    std::memcpy(to, &value, sizeof(float) * left);
}

// What all outputs of a row share.
struct Line {
  const float *x, *taps;  // the first image row that counts, and its weights
  const float* bias;
  float* y;
  std::ptrdiff_t row;  // elements of a row of the image
  int rows, W, C, padded, KW, pad_left, silu;
};

// The outputs w to w + strip - 1 of `vectors` vectors of channels from c on; the columns first to last - 1 of the kernel.
template <int strip, int vectors, bool whole>
inline void outputs(const Line& line, int w, int c, int first, int last) {
  const int left = line.C - c;
  Vector sums[strip][vectors];
  UNROLLED for (int s = 0; s < strip; ++s) UNROLLED for (int v = 0; v < vectors; ++v) sums[s][v] = Vector{};
  for (int i = 0; i < line.rows; ++i) {
    const float* const in =
        line.x + i * line.row + static_cast<std::ptrdiff_t>(w - line.pad_left) * line.C + c;
    const float* const weights = line.taps + static_cast<std::ptrdiff_t>(i) * line.KW * line.padded + c;
    for (int j = first; j < last; ++j) {
      Vector of_taps[vectors];
      UNROLLED for (int v = 0; v < vectors; ++v) of_taps[v] =
          *(const Loose*)(weights + static_cast<std::ptrdiff_t>(j) * line.padded + v * WIDTH);
      UNROLLED for (int s = 0; s < strip; ++s) UNROLLED for (int v = 0; v < vectors; ++v) sums[s][v] +=
          load<whole>(in + static_cast<std::ptrdiff_t>(s + j) * line.C + v * WIDTH, left) * of_taps[v];
    }
  }
  UNROLLED for (int s = 0; s < strip; ++s) UNROLLED for (int v = 0; v < vectors; ++v) {
    Vector sum = sums[s][v] + *(const Loose*)(line.bias + c + v * WIDTH);
    if (line.silu) sum = silu_of(sum);
    store<whole>(line.y + static_cast<std::ptrdiff_t>(w + s) * line.C + c + v * WIDTH, sum, left);
  }
}

// The outputs w to w + strip - 1 of all channels, or of the block of channels from `from` on.
template <int strip>
void channels_of(const Line& line, int w, int from, int first, int last) {
  int c = from;
  const int end = ORDER == ORDER_strips || line.C - c < VECTORS * WIDTH ? line.C : c + VECTORS * WIDTH;
  for (; c + VECTORS * WIDTH <= end; c += VECTORS * WIDTH)
    outputs<strip, VECTORS, true>(line, w, c, first, last);
  for (; c + WIDTH <= end; c += WIDTH) outputs<strip, 1, true>(line, w, c, first, last);
  if (c < end) outputs<strip, 1, false>(line, w, c, first, last);
}

// The outputs w to end - 1 of the row.
void row_of(const Line& line, int from, int w, int end) {
  const auto one = [&] {
    const int first = line.pad_left > w ? line.pad_left - w : 0;
    const int last = line.W + line.pad_left - w < line.KW ? line.W + line.pad_left - w : line.KW;
    channels_of<1>(line, w, from, first, last);
    ++w;
  };
  while (w < end && w < line.pad_left) one();
  for (; w + STRIP <= end && w + STRIP - 1 + line.KW - line.pad_left <= line.W; w += STRIP)
    channels_of<STRIP>(line, w, from, 0, line.KW);
  while (w < end) one();
}

}  // namespace

extern "C" void transpose_weights(const float* weight, const float* bias, float* taps, int C, int padded,
                                  int count, int thread, int threads) {
  const int first = static_cast<int>(static_cast<std::ptrdiff_t>(padded) * thread / threads);
  const int last = static_cast<int>(static_cast<std::ptrdiff_t>(padded) * (thread + 1) / threads);
  for (int t = 0; t <= count; ++t)
    for (int c = first; c < last; ++c) {
      float value = 0.0f;
      if (c < C) value = t < count ? weight[static_cast<std::ptrdiff_t>(c) * count + t] : bias[c];
      taps[static_cast<std::ptrdiff_t>(t) * padded + c] = value;
    }
}

extern "C" void depthwise_conv(const float* x, const float* taps, float* y, int N, int H, int W, int C,
                               int padded, int KH, int KW, int pad_top, int pad_left, int silu, int thread,
                               int threads) {
  const std::ptrdiff_t row = static_cast<std::ptrdiff_t>(W) * C,
                       pixels = static_cast<std::ptrdiff_t>(N) * H * W;
  const std::ptrdiff_t last = pixels * (thread + 1) / threads;
  for (std::ptrdiff_t pixel = pixels * thread / threads; pixel < last;) {
    const std::ptrdiff_t n = pixel / W;  // of the rows of all images
    const int h = static_cast<int>(n % H), w = static_cast<int>(pixel % W);
    const int end = last - n * W < W ? static_cast<int>(last - n * W) : W;
    const int above = pad_top > h ? pad_top - h : 0;
    const int below = H + pad_top - h < KH ? H + pad_top - h : KH;
    const Line line{x + (n + above - pad_top) * row,
                    taps + static_cast<std::ptrdiff_t>(above) * KW * padded,
                    taps + static_cast<std::ptrdiff_t>(KH) * KW * padded,
                    y + n * row,
                    row,
                    below - above,
                    W,
                    C,
                    padded,
                    KW,
                    pad_left,
                    silu};
    for (int c = 0; c < C; c += ORDER == ORDER_strips ? C : VECTORS * WIDTH) row_of(line, c, w, end);
    pixel = n * W + end;
  }
}
