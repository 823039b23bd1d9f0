// The oracle of gelu, one row at a time, in fp64; and the legal-rounding model: f32 throughout, erf and tanh to a place, rounded once.
#include "cultivar_reference.hpp"

#include <algorithm>
#include <numbers>

namespace {

struct Row {
  const double* x;
  std::int64_t C;
  bool tanh_form;
  Row(const ReferenceArgs& args, std::int64_t row)
      : C(args.integer("C")), tanh_form(args.integer("tanh_form") != 0) {
    x = args.tensor("x") + row * C;
  }
  template <class Function>
  void each(double* out, const Function& function) const {
    for (std::int64_t c = 0; c < C; ++c) out[c] = function(x[c]);
  }
};

// By erfc, which does not cancel where x is negative.
double by_erf(double x) {
  return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
}
double by_tanh(double x) {
  const double u = std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  return x / (1.0 + std::exp(-2.0 * u));
}

}  // namespace

// out: C elements of y.
extern "C" void reference_row(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  r.each(out, r.tanh_form ? by_tanh : by_erf);
}

// 1 + erf and 1 + tanh cancel where x is far below zero: that error is permitted, as everybody makes it. The libraries' erff and
// tanhf may be off by a place, which then matters as much, so the worse neighbor counts.
extern "C" void reference_row_rounded(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  r.each(out, [&](double value) {
    const auto x = static_cast<float>(value);
    const float inner =
        r.tanh_form ? std::tanh(0.797884561f * (x + 0.044715f * x * x * x)) : std::erf(x * 0.707106781f);
    const double exact = r.tanh_form ? by_tanh(value) : by_erf(value);
    const auto with = [&](float other) { return 0.5f * x * (1.0f + other); };
    const float low = with(std::nextafter(inner, -1.0f)), high = with(std::nextafter(inner, 1.0f));
    return args.round(std::abs(low - exact) > std::abs(high - exact) ? low : high);
  });
}

// --- Wrong kernels that the checks must refuse. ---

extern "C" void control_other_form(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  r.each(out, r.tanh_form ? by_erf : by_tanh);
}

extern "C" void control_relu(const ReferenceArgs& args, std::int64_t row, double* out) {
  Row(args, row).each(out, [](double x) { return std::max(x, 0.0); });
}

extern "C" void control_silu(const ReferenceArgs& args, std::int64_t row, double* out) {
  Row(args, row).each(out, [](double x) { return x / (1.0 + std::exp(-1.702 * x)); });
}
