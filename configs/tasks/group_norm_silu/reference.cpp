// The oracle of group_norm_silu, one channel of an image at a time, in fp64; and the legal-rounding model: f32 throughout, rounded
// once.
#include "cultivar_reference.hpp"

#include <algorithm>
#include <bit>

namespace {

struct Channel {
  const double *image, *x;  // all channels of the image; this one
  double weight, bias;
  std::int64_t c, C, G, D, S;
  bool silu;
  Channel(const ReferenceArgs& args, std::int64_t row)
      : C(args.integer("C")),
        G(args.integer("G")),
        D(args.integer("D")),
        S(args.integer("S")),
        silu(args.integer("silu") != 0) {
    c = row % C;
    image = args.tensor("x") + (row - c) * S, x = image + c * S;
    weight = args.tensor("weight")[c], bias = args.tensor("bias")[c];
  }
  std::int64_t first_of_group() const { return c / D * D; }
};

struct Moments {
  double mean, variance;
};

// Of the first `counted` of `count` elements, divided by `count`; x(i) is an element.
template <class Element>
Moments moments(std::int64_t count, std::int64_t counted, const Element& x) {
  double sum = 0.0, squares = 0.0;
  for (std::int64_t i = 0; i < counted; ++i) sum += x(i);
  const double mean = sum / static_cast<double>(count);
  for (std::int64_t i = 0; i < counted; ++i) squares += (x(i) - mean) * (x(i) - mean);
  return {mean, squares / static_cast<double>(count)};
}

Moments of_group(const Channel& of, std::int64_t counted) {
  const double* const group = of.image + of.first_of_group() * of.S;
  return moments(of.D * of.S, counted, [&](std::int64_t i) { return group[i]; });
}
Moments of_group(const Channel& of) {
  return of_group(of, of.D * of.S);
}

double activated(double v, bool silu) {
  return silu ? v / (1.0 + std::exp(-v)) : v;
}

void finish(const ReferenceArgs& args, const Channel& of, const Moments& m, double weight, double bias,
            bool silu, double* out) {
  const double factor = 1.0 / std::sqrt(m.variance + args.number("eps"));
  for (std::int64_t s = 0; s < of.S; ++s)
    out[s] = activated((of.x[s] - m.mean) * factor * weight + bias, silu);
}
void finish(const ReferenceArgs& args, const Channel& of, const Moments& m, double* out) {
  finish(args, of, m, of.weight, of.bias, of.silu, out);
}

// A sum in f32 as a kernel has it: in parts, whose sums are added.
template <class Element>
float sum_in_parts(std::int64_t count, const Element& x) {
  constexpr std::int64_t kPart = 1024;
  float sum = 0.0f;
  for (std::int64_t from = 0; from < count; from += kPart) {
    float part = 0.0f;
    for (std::int64_t i = from; i < std::min(count, from + kPart); ++i) part += x(i);
    sum += part;
  }
  return sum;
}

double to_bf16(double value) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  return std::bit_cast<float>((bits + 0x7fffu + (bits >> 16 & 1)) & 0xffff0000u);
}

}  // namespace

// out: S elements of y.
extern "C" void reference_row(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Channel of(args, row);
  finish(args, of, of_group(of), out);
}

extern "C" void reference_row_rounded(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Channel of(args, row);
  const double* const group = of.image + of.first_of_group() * of.S;
  const std::int64_t count = of.D * of.S;
  const float mean = sum_in_parts(count, [&](std::int64_t i) { return static_cast<float>(group[i]); }) /
                     static_cast<float>(count);
  const float squares = sum_in_parts(count, [&](std::int64_t i) {
    const float deviation = static_cast<float>(group[i]) - mean;
    return deviation * deviation;
  });
  const float factor =
      1.0f / std::sqrt(squares / static_cast<float>(count) + static_cast<float>(args.number("eps")));
  const auto weight = static_cast<float>(of.weight), bias = static_cast<float>(of.bias);
  for (std::int64_t s = 0; s < of.S; ++s) {
    const float v = (static_cast<float>(of.x[s]) - mean) * factor * weight + bias;
    out[s] = of.silu ? v / (1.0f + std::exp(-v)) : v;
  }
  args.round_all(out, of.S);
}

// --- Wrong kernels that the checks must refuse. ---

extern "C" void control_ignores_eps(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Channel of(args, row);
  Moments m = of_group(of);
  m.variance -= args.number("eps");
  if (m.variance <= 0.0) m.variance = 1e-300;
  finish(args, of, m, out);
}

extern "C" void control_ignores_weight(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Channel of(args, row);
  finish(args, of, of_group(of), 1.0, of.bias, of.silu, out);
}

extern "C" void control_ignores_bias(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Channel of(args, row);
  finish(args, of, of_group(of), of.weight, 0.0, of.silu, out);
}

extern "C" void control_other_activation(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Channel of(args, row);
  finish(args, of, of_group(of), of.weight, of.bias, !of.silu, out);
}

extern "C" void control_silu_before_weight(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Channel of(args, row);
  finish(args, of, of_group(of), 1.0, 0.0, true, out);
  for (std::int64_t s = 0; s < of.S; ++s) out[s] = out[s] * of.weight + of.bias;
}

extern "C" void control_keeps_mean(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Channel of(args, row);
  Moments m = of_group(of);
  m.variance += m.mean * m.mean;
  m.mean = 0.0;
  finish(args, of, m, out);
}

extern "C" void control_norm_of_channel(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Channel of(args, row);
  finish(args, of, moments(of.S, of.S, [&](std::int64_t i) { return of.x[i]; }), out);
}

extern "C" void control_norm_of_layer(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Channel of(args, row);
  finish(args, of, moments(of.C * of.S, of.C * of.S, [&](std::int64_t i) { return of.image[i]; }), out);
}

extern "C" void control_turns_of_groups(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Channel of(args, row);
  finish(args, of,
         moments(of.D * of.S, of.D * of.S,
                 [&](std::int64_t i) { return of.image[(of.c % of.G + i / of.S * of.G) * of.S + i % of.S]; }),
         out);
}

extern "C" void control_weight_of_group(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Channel of(args, row);
  const std::int64_t first = of.first_of_group();
  finish(args, of, of_group(of), args.tensor("weight")[first], args.tensor("bias")[first], of.silu, out);
}

extern "C" void control_ignores_last_tile(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Channel of(args, row);
  const std::int64_t count = of.D * of.S;
  finish(args, of, of_group(of, count > 64 ? (count - 1) / 64 * 64 : count), out);
}

extern "C" void control_variance_of_squares(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Channel of(args, row);
  Moments m = of_group(of);
  const double mean = to_bf16(m.mean);
  m.variance = to_bf16(m.variance + m.mean * m.mean) - mean * mean;
  if (m.variance <= 0.0) m.variance = 1e-30;
  finish(args, of, m, out);
}
