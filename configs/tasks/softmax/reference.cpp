// The oracle of softmax, one row at a time, in fp64; and the legal-rounding model: f32 throughout, rounded once.
#include "cultivar_reference.hpp"

#include <algorithm>
#include <limits>

namespace {

struct Row {
  const double* x;
  std::int64_t C;
  Row(const ReferenceArgs& args, std::int64_t row) : C(args.integer("C")) { x = args.tensor("x") + row * C; }
  double maximum() const { return *std::max_element(x, x + C); }
};

void divide(double* out, std::int64_t count, double sum) {
  for (std::int64_t c = 0; c < count; ++c) out[c] /= sum;
}

}  // namespace

// out: C elements of y.
extern "C" void reference_row(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  const double maximum = r.maximum();
  double sum = 0.0;
  for (std::int64_t c = 0; c < r.C; ++c) sum += out[c] = std::exp(r.x[c] - maximum);
  divide(out, r.C, sum);
}

extern "C" void reference_row_rounded(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  const auto maximum = static_cast<float>(r.maximum());
  float sum = 0.0f;
  for (std::int64_t c = 0; c < r.C; ++c) {
    const float weight = std::exp(static_cast<float>(r.x[c]) - maximum);
    out[c] = weight;
    sum += weight;
  }
  for (std::int64_t c = 0; c < r.C; ++c) out[c] = args.round(static_cast<float>(out[c]) / sum);
}

// --- Wrong kernels that the checks must refuse. ---

extern "C" void control_no_maximum(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  double sum = 0.0;
  for (std::int64_t c = 0; c < r.C; ++c) sum += out[c] = std::min(std::exp(r.x[c]), 65504.0) + 1e-3;
  divide(out, r.C, sum);
}

extern "C" void control_ignores_last_tile(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  const double maximum = r.maximum();
  double sum = 0.0;
  for (std::int64_t c = 0; c < r.C; ++c) {
    out[c] = std::exp(r.x[c] - maximum);
    if (c < (r.C - 1) / 64 * 64 || r.C <= 64) sum += out[c];
  }
  divide(out, r.C, sum);
}

extern "C" void control_uniform(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  std::fill(out, out + r.C, 1.0 / static_cast<double>(r.C));
}
