// The oracle of depthwise_conv, one pixel with all of its channels at a time, in fp64; and the legal-rounding model: f32
// throughout, rounded once.
#include "cultivar_reference.hpp"

#include <algorithm>
#include <bit>

namespace {

struct Pixel {
  const double *x, *weight, *bias;
  std::int64_t n, h, w, H, W, C, KH, KW, top, left;
  bool silu;
  Pixel(const ReferenceArgs& args, std::int64_t row)
      : x(args.tensor("x")),
        weight(args.tensor("weight")),
        bias(args.tensor("bias")),
        H(args.integer("H")),
        W(args.integer("W")),
        C(args.integer("C")),
        KH(args.integer("KH")),
        KW(args.integer("KW")),
        top(args.integer("pad_top")),
        left(args.integer("pad_left")),
        silu(args.integer("silu") != 0) {
    w = row % W, h = row / W % H, n = row / W / H;
  }
  bool is_inside(std::int64_t r, std::int64_t c) const { return r >= 0 && r < H && c >= 0 && c < W; }
  // of: a pixel of x, which may lie outside of the image: row r and column c.
  double at(std::int64_t r, std::int64_t c, std::int64_t channel) const {
    return is_inside(r, c) ? x[((n * H + r) * W + c) * C + channel] : 0.0;
  }
  double tap(std::int64_t channel, std::int64_t i, std::int64_t j) const {
    return weight[(channel * KH + i) * KW + j];
  }
  // out[channel] = finish(channel, sum of term(channel, i, j)), where after each term the sum is what `kept` makes of it.
  template <class Sum, class Term, class Kept, class Finish>
  void each(double* out, const Term& term, const Kept& kept, const Finish& finish) const {
    for (std::int64_t channel = 0; channel < C; ++channel) {
      Sum sum = 0;
      for (std::int64_t i = 0; i < KH; ++i)
        for (std::int64_t j = 0; j < KW; ++j) sum = kept(sum + term(channel, i, j));
      out[channel] = finish(channel, sum);
    }
  }
  double activated(double v, bool with_silu) const { return with_silu ? v / (1.0 + std::exp(-v)) : v; }
  // A wrong kernel that differs in its terms.
  template <class Term>
  void with(double* out, const Term& term) const {
    each<double>(
        out, term, [](double sum) { return sum; },
        [&](std::int64_t channel, double sum) { return activated(sum + bias[channel], silu); });
  }
  void right(double* out, bool with_bias, bool with_silu) const {
    each<double>(
        out,
        [&](std::int64_t channel, std::int64_t i, std::int64_t j) {
          return at(h + i - top, w + j - left, channel) * tap(channel, i, j);
        },
        [](double sum) { return sum; },
        [&](std::int64_t channel, double sum) {
          return activated(with_bias ? sum + bias[channel] : sum, with_silu);
        });
  }
};

double to_bf16(double value) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  return std::bit_cast<float>((bits + 0x7fffu + (bits >> 16 & 1)) & 0xffff0000u);
}

}  // namespace

// out: C elements of y.
extern "C" void reference_row(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Pixel p(args, row);
  p.right(out, true, p.silu);
}

extern "C" void reference_row_rounded(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Pixel p(args, row);
  p.each<float>(
      out,
      [&](std::int64_t channel, std::int64_t i, std::int64_t j) {
        return static_cast<float>(p.at(p.h + i - p.top, p.w + j - p.left, channel)) *
               static_cast<float>(p.tap(channel, i, j));
      },
      [](float sum) { return sum; },
      [&](std::int64_t channel, float sum) {
        const float v = sum + static_cast<float>(p.bias[channel]);
        return static_cast<double>(p.silu ? v / (1.0f + std::exp(-v)) : v);
      });
  args.round_all(out, p.C);
}

// --- Wrong kernels that the checks must refuse. ---

extern "C" void control_mirrored(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Pixel p(args, row);
  p.with(out, [&](std::int64_t channel, std::int64_t i, std::int64_t j) {
    return p.at(p.h + i - p.top, p.w + j - p.left, channel) * p.tap(channel, p.KH - 1 - i, p.KW - 1 - j);
  });
}

extern "C" void control_other_layout(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Pixel p(args, row);
  p.with(out, [&](std::int64_t channel, std::int64_t i, std::int64_t j) {
    return p.at(p.h + i - p.top, p.w + j - p.left, channel) * p.weight[(i * p.KW + j) * p.C + channel];
  });
}

extern "C" void control_transposed_kernel(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Pixel p(args, row);
  p.with(out, [&](std::int64_t channel, std::int64_t i, std::int64_t j) {
    return p.at(p.h + i - p.top, p.w + j - p.left, channel) * p.tap(channel, j, i);
  });
}

extern "C" void control_nearest_pixel(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Pixel p(args, row);
  p.with(out, [&](std::int64_t channel, std::int64_t i, std::int64_t j) {
    const std::int64_t r = std::clamp<std::int64_t>(p.h + i - p.top, 0, p.H - 1);
    const std::int64_t c = std::clamp<std::int64_t>(p.w + j - p.left, 0, p.W - 1);
    return p.at(r, c, channel) * p.tap(channel, i, j);
  });
}

extern "C" void control_wraps(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Pixel p(args, row);
  p.with(out, [&](std::int64_t channel, std::int64_t i, std::int64_t j) {
    const std::int64_t place = (p.h + i - p.top) * p.W + p.w + j - p.left;
    const bool inside = place >= 0 && place < p.H * p.W;
    return inside ? p.at(place / p.W, place % p.W, channel) * p.tap(channel, i, j) : 0.0;
  });
}

extern "C" void control_other_padding(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Pixel p(args, row);
  const std::int64_t left = args.integer("causal") != 0 ? (p.KW - 1) / 2 : p.KW - 1;
  p.with(out, [&](std::int64_t channel, std::int64_t i, std::int64_t j) {
    return p.at(p.h + i - p.top, p.w + j - left, channel) * p.tap(channel, i, j);
  });
}

extern "C" void control_ignores_last_column(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Pixel p(args, row);
  p.with(out, [&](std::int64_t channel, std::int64_t i, std::int64_t j) {
    return j + 1 < p.KW ? p.at(p.h + i - p.top, p.w + j - p.left, channel) * p.tap(channel, i, j) : 0.0;
  });
}

extern "C" void control_ignores_bias(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Pixel p(args, row);
  p.right(out, false, p.silu);
}

extern "C" void control_other_activation(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Pixel p(args, row);
  p.right(out, true, !p.silu);
}

extern "C" void control_sums_in_bf16(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Pixel p(args, row);
  p.each<double>(
      out,
      [&](std::int64_t channel, std::int64_t i, std::int64_t j) {
        return p.at(p.h + i - p.top, p.w + j - p.left, channel) * p.tap(channel, i, j);
      },
      [](double sum) { return to_bf16(sum); },
      [&](std::int64_t channel, double sum) { return p.activated(sum + p.bias[channel], p.silu); });
}
