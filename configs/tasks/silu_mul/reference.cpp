// The oracle of silu_mul, one row at a time, in fp64; and the legal-rounding model: f32 throughout, rounded once.
#include "cultivar_reference.hpp"

#include <algorithm>

namespace {

struct Row {
  const double *gate, *up;
  std::int64_t C;
  Row(const ReferenceArgs& args, std::int64_t row) : C(args.integer("C")) {
    gate = args.tensor("gate") + row * C, up = args.tensor("up") + row * C;
  }
  template <class Function>
  void each(double* out, const Function& function) const {
    for (std::int64_t c = 0; c < C; ++c) out[c] = function(gate[c], up[c]);
  }
};

double silu(double x) {
  return x / (1.0 + std::exp(-x));
}

}  // namespace

// out: C elements of y.
extern "C" void reference_row(const ReferenceArgs& args, std::int64_t row, double* out) {
  Row(args, row).each(out, [](double gate, double up) { return silu(gate) * up; });
}

extern "C" void reference_row_rounded(const ReferenceArgs& args, std::int64_t row, double* out) {
  Row(args, row).each(out, [&](double gate, double up) {
    const auto x = static_cast<float>(gate);
    return args.round(x / (1.0f + std::exp(-x)) * static_cast<float>(up));
  });
}

// --- Wrong kernels that the checks must refuse. ---

extern "C" void control_sigmoid_only(const ReferenceArgs& args, std::int64_t row, double* out) {
  Row(args, row).each(out, [](double gate, double up) { return 1.0 / (1.0 + std::exp(-gate)) * up; });
}

extern "C" void control_swapped(const ReferenceArgs& args, std::int64_t row, double* out) {
  Row(args, row).each(out, [](double gate, double up) { return silu(up) * gate; });
}

extern "C" void control_hard(const ReferenceArgs& args, std::int64_t row, double* out) {
  Row(args, row).each(
      out, [](double gate, double up) { return gate * std::clamp(gate / 6.0 + 0.5, 0.0, 1.0) * up; });
}

extern "C" void control_relu(const ReferenceArgs& args, std::int64_t row, double* out) {
  Row(args, row).each(out, [](double gate, double up) { return std::max(gate, 0.0) * up; });
}
