// The oracle of rmsnorm, one row at a time, in fp64; and the legal-rounding model: f32 throughout, rounded once.
#include "cultivar_reference.hpp"

#include <algorithm>
#include <bit>

namespace {

struct Row {
  const double* x;
  std::int64_t C;
  Row(const ReferenceArgs& args, std::int64_t row) : C(args.integer("C")) { x = args.tensor("x") + row * C; }
};

double to_bf16(double value) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  return std::bit_cast<float>((bits + 0x7fffu + (bits >> 16 & 1)) & 0xffff0000u);
}

// y from the sum of the squares.
void scale(const ReferenceArgs& args, const Row& r, double sum, double eps, double* out) {
  const double* const w = args.tensor("w");
  const double factor = 1.0 / std::sqrt(sum / static_cast<double>(r.C) + eps);
  for (std::int64_t c = 0; c < r.C; ++c) out[c] = r.x[c] * factor * w[c];
}

double squares(const Row& r, std::int64_t columns) {
  double sum = 0.0;
  for (std::int64_t c = 0; c < columns; ++c) sum += r.x[c] * r.x[c];
  return sum;
}

}  // namespace

// out: C elements of y.
extern "C" void reference_row(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  scale(args, r, squares(r, r.C), args.number("eps"), out);
}

extern "C" void reference_row_rounded(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  const double* const w = args.tensor("w");
  float sum = 0.0f;
  for (std::int64_t c = 0; c < r.C; ++c) sum += static_cast<float>(r.x[c]) * static_cast<float>(r.x[c]);
  const float factor =
      1.0f / std::sqrt(sum / static_cast<float>(r.C) + static_cast<float>(args.number("eps")));
  for (std::int64_t c = 0; c < r.C; ++c)
    out[c] = args.round(static_cast<float>(r.x[c]) * factor * static_cast<float>(w[c]));
}

// --- Wrong kernels that the checks must refuse. ---

extern "C" void control_ignores_eps(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  scale(args, r, squares(r, r.C), 1e-300, out);
}

extern "C" void control_ignores_weight(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  const double factor = 1.0 / std::sqrt(squares(r, r.C) / static_cast<double>(r.C) + args.number("eps"));
  for (std::int64_t c = 0; c < r.C; ++c) out[c] = r.x[c] * factor;
}

extern "C" void control_subtracts_mean(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  const double* const w = args.tensor("w");
  double mean = 0.0, sum = 0.0;
  for (std::int64_t c = 0; c < r.C; ++c) mean += r.x[c] / static_cast<double>(r.C);
  for (std::int64_t c = 0; c < r.C; ++c) sum += (r.x[c] - mean) * (r.x[c] - mean);
  const double factor = 1.0 / std::sqrt(sum / static_cast<double>(r.C) + args.number("eps"));
  for (std::int64_t c = 0; c < r.C; ++c) out[c] = (r.x[c] - mean) * factor * w[c];
}

extern "C" void control_ignores_last_tile(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  scale(args, r, squares(r, r.C > 64 ? (r.C - 1) / 64 * 64 : r.C), args.number("eps"), out);
}

extern "C" void control_sums_in_bf16(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  double sum = 0.0;
  for (std::int64_t c = 0; c < r.C; ++c) sum = to_bf16(sum + r.x[c] * r.x[c]);
  scale(args, r, sum, args.number("eps"), out);
}
