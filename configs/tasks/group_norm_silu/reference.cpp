// The oracle of group_norm_silu, one group of an image at a time, in fp64; and the legal-rounding model: f32 throughout, rounded
// once.
#include "cultivar_reference.hpp"

#include <algorithm>
#include <bit>

namespace {

struct Group {
  const double *image, *x, *weight, *bias;  // all groups of the image; this one, and its channels
  std::int64_t g, G, D, S;
  bool silu;
  Group(const ReferenceArgs& args, std::int64_t row)
      : G(args.integer("G")), D(args.integer("D")), S(args.integer("S")), silu(args.integer("silu") != 0) {
    g = row % G;
    image = args.tensor("x") + (row - g) * D * S, x = image + g * D * S;
    weight = args.tensor("weight") + g * D, bias = args.tensor("bias") + g * D;
  }
  std::int64_t count() const { return D * S; }
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

Moments of_group(const Group& of, std::int64_t counted) {
  return moments(of.count(), counted, [&](std::int64_t i) { return of.x[i]; });
}
Moments of_group(const Group& of) {
  return of_group(of, of.count());
}

double activated(double v, bool silu) {
  return silu ? v / (1.0 + std::exp(-v)) : v;
}

// weight and bias: functions of a channel of the group.
template <class Weight, class Bias>
void finish(const ReferenceArgs& args, const Group& of, const Moments& m, const Weight& weight,
            const Bias& bias, bool silu, double* out) {
  const double factor = 1.0 / std::sqrt(m.variance + args.number("eps"));
  for (std::int64_t i = 0; i < of.count(); ++i)
    out[i] = activated((of.x[i] - m.mean) * factor * weight(i / of.S) + bias(i / of.S), silu);
}
void finish(const ReferenceArgs& args, const Group& of, const Moments& m, bool silu, double* out) {
  finish(
      args, of, m, [&](std::int64_t d) { return of.weight[d]; }, [&](std::int64_t d) { return of.bias[d]; },
      silu, out);
}
void finish(const ReferenceArgs& args, const Group& of, const Moments& m, double* out) {
  finish(args, of, m, of.silu, out);
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

// out: D * S elements of y.
extern "C" void reference_row(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Group of(args, row);
  finish(args, of, of_group(of), out);
}

extern "C" void reference_row_rounded(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Group of(args, row);
  const std::int64_t count = of.count();
  const float mean = sum_in_parts(count, [&](std::int64_t i) { return static_cast<float>(of.x[i]); }) /
                     static_cast<float>(count);
  const float squares = sum_in_parts(count, [&](std::int64_t i) {
    const float deviation = static_cast<float>(of.x[i]) - mean;
    return deviation * deviation;
  });
  const float factor =
      1.0f / std::sqrt(squares / static_cast<float>(count) + static_cast<float>(args.number("eps")));
  for (std::int64_t d = 0; d < of.D; ++d) {
    const auto weight = static_cast<float>(of.weight[d]), bias = static_cast<float>(of.bias[d]);
    for (std::int64_t i = d * of.S; i < (d + 1) * of.S; ++i) {
      const float v = (static_cast<float>(of.x[i]) - mean) * factor * weight + bias;
      out[i] = of.silu ? v / (1.0f + std::exp(-v)) : v;
    }
  }
  args.round_all(out, count);
}

// --- Wrong kernels that the checks must refuse. ---

extern "C" void control_ignores_eps(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Group of(args, row);
  Moments m = of_group(of);
  m.variance -= args.number("eps");
  if (m.variance <= 0.0) m.variance = 1e-300;
  finish(args, of, m, out);
}

extern "C" void control_ignores_weight(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Group of(args, row);
  const auto one = [](std::int64_t) { return 1.0; };
  finish(
      args, of, of_group(of), one, [&](std::int64_t d) { return of.bias[d]; }, of.silu, out);
}

extern "C" void control_ignores_bias(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Group of(args, row);
  const auto nothing = [](std::int64_t) { return 0.0; };
  finish(
      args, of, of_group(of), [&](std::int64_t d) { return of.weight[d]; }, nothing, of.silu, out);
}

extern "C" void control_other_activation(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Group of(args, row);
  finish(args, of, of_group(of), !of.silu, out);
}

extern "C" void control_silu_before_weight(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Group of(args, row);
  const auto one = [](std::int64_t) { return 1.0; };
  const auto nothing = [](std::int64_t) { return 0.0; };
  finish(args, of, of_group(of), one, nothing, true, out);
  for (std::int64_t i = 0; i < of.count(); ++i) out[i] = out[i] * of.weight[i / of.S] + of.bias[i / of.S];
}

extern "C" void control_keeps_mean(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Group of(args, row);
  Moments m = of_group(of);
  m.variance += m.mean * m.mean;
  m.mean = 0.0;
  finish(args, of, m, out);
}

extern "C" void control_norm_of_channel(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Group of(args, row);
  for (std::int64_t d = 0; d < of.D; ++d) {
    const double* const x = of.x + d * of.S;
    const Moments m = moments(of.S, of.S, [&](std::int64_t i) { return x[i]; });
    const double factor = 1.0 / std::sqrt(m.variance + args.number("eps"));
    for (std::int64_t s = 0; s < of.S; ++s)
      out[d * of.S + s] = activated((x[s] - m.mean) * factor * of.weight[d] + of.bias[d], of.silu);
  }
}

extern "C" void control_norm_of_layer(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Group of(args, row);
  const std::int64_t all = of.G * of.count();
  finish(args, of, moments(all, all, [&](std::int64_t i) { return of.image[i]; }), out);
}

extern "C" void control_turns_of_groups(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Group of(args, row);
  const auto turn = [&](std::int64_t i) { return of.image[(of.g + i / of.S * of.G) * of.S + i % of.S]; };
  finish(args, of, moments(of.count(), of.count(), turn), out);
}

extern "C" void control_weight_of_group(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Group of(args, row);
  const auto weight = [&](std::int64_t) { return of.weight[0]; };
  finish(
      args, of, of_group(of), weight, [&](std::int64_t) { return of.bias[0]; }, of.silu, out);
}

extern "C" void control_ignores_last_tile(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Group of(args, row);
  finish(args, of, of_group(of, of.count() > 64 ? (of.count() - 1) / 64 * 64 : of.count()), out);
}

extern "C" void control_variance_of_squares(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Group of(args, row);
  Moments m = of_group(of);
  const double mean = to_bf16(m.mean);
  m.variance = to_bf16(m.variance + m.mean * m.mean) - mean * mean;
  if (m.variance <= 0.0) m.variance = 1e-30;
  finish(args, of, m, out);
}
