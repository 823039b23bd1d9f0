// The oracle of softmax, one row at a time, in fp64; and the legal-rounding model: f32 throughout, rounded once.
#include "cultivar_reference.hpp"

#include <algorithm>
#include <limits>

namespace {

// Reads the row into out, for all that follows to be computed there.
struct Row {
  std::int64_t C;
  double maximum;
  Row(const ReferenceArgs& args, std::int64_t row, double* out) : C(args.integer("C")) {
    args.find("x")->read(row * C, C, out);
    maximum = reference_max(out, C);
  }
  void exponentials(double* out) const {
    for (std::int64_t c = 0; c < C; ++c) out[c] -= maximum;
    reference_exp_all(out, C);
  }
};

void divide(double* out, std::int64_t count, double sum) {
  const double factor = 1.0 / sum;
  for (std::int64_t c = 0; c < count; ++c) out[c] *= factor;
}

}  // namespace

// out: C elements of y.
extern "C" void reference_row(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row, out);
  r.exponentials(out);
  divide(out, r.C, reference_sum(out, r.C));
}

extern "C" void reference_row_rounded(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row, out);
  const auto maximum = static_cast<float>(r.maximum);
  for (std::int64_t c = 0; c < r.C; ++c) out[c] = static_cast<float>(out[c]) - maximum;
  reference_exp_all(out, r.C);
  float sum = 0.0f;
  for (std::int64_t c = 0; c < r.C; ++c) {
    const auto weight = static_cast<float>(out[c]);
    out[c] = weight;
    sum += weight;
  }
  for (std::int64_t c = 0; c < r.C; ++c) out[c] = static_cast<float>(out[c]) / sum;
  args.round_all(out, r.C);
}

// --- Wrong kernels that the checks must refuse. ---

extern "C" void control_no_maximum(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row, out);
  for (std::int64_t c = 0; c < r.C; ++c) out[c] = std::min(std::exp(out[c]), 65504.0) + 1e-3;
  divide(out, r.C, reference_sum(out, r.C));
}

extern "C" void control_ignores_last_tile(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row, out);
  r.exponentials(out);
  divide(out, r.C, reference_sum(out, r.C > 64 ? (r.C - 1) / 64 * 64 : r.C));
}

extern "C" void control_uniform(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row, out);
  std::fill(out, out + r.C, 1.0 / static_cast<double>(r.C));
}
