// The oracle of add_rmsnorm, one row at a time, in fp64; and the legal-rounding model: s is rounded, and the norm is of the
// rounded s, in f32.
#include "cultivar_reference.hpp"

#include <bit>
#include <vector>

namespace {

struct Row {
  const double *x, *r;
  std::int64_t C;
  Row(const ReferenceArgs& args, std::int64_t row) : C(args.integer("C")) {
    x = args.tensor("x") + row * C, r = args.tensor("r") + row * C;
  }
};

double to_bf16(double value) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  return std::bit_cast<float>((bits + 0x7fffu + (bits >> 16 & 1)) & 0xffff0000u);
}

// out: C elements of y, then C of s.
void sums_of(const Row& row, double* out) {
  for (std::int64_t c = 0; c < row.C; ++c) out[row.C + c] = row.x[c] + row.r[c];
}

double squares(const double* values, std::int64_t columns) {
  double sum = 0.0;
  for (std::int64_t c = 0; c < columns; ++c) sum += values[c] * values[c];
  return sum;
}

void scale(const ReferenceArgs& args, const double* values, std::int64_t C, double sum, double eps,
           double* out) {
  const double* const w = args.tensor("w");
  const double factor = 1.0 / std::sqrt(sum / static_cast<double>(C) + eps);
  for (std::int64_t c = 0; c < C; ++c) out[c] = values[c] * factor * w[c];
}

}  // namespace

extern "C" void reference_row(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  sums_of(r, out);
  scale(args, out + r.C, r.C, squares(out + r.C, r.C), args.number("eps"), out);
}

extern "C" void reference_row_rounded(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  const double* const w = args.tensor("w");
  double* const s = out + r.C;
  float sum = 0.0f;
  for (std::int64_t c = 0; c < r.C; ++c) {
    s[c] = args.round(static_cast<float>(r.x[c]) + static_cast<float>(r.r[c]));
    sum += static_cast<float>(s[c]) * static_cast<float>(s[c]);
  }
  const float factor =
      1.0f / std::sqrt(sum / static_cast<float>(r.C) + static_cast<float>(args.number("eps")));
  for (std::int64_t c = 0; c < r.C; ++c)
    out[c] = args.round(static_cast<float>(s[c]) * factor * static_cast<float>(w[c]));
}

// --- Wrong kernels that the checks must refuse. ---

extern "C" void control_ignores_eps(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  sums_of(r, out);
  scale(args, out + r.C, r.C, squares(out + r.C, r.C), 1e-300, out);
}

extern "C" void control_ignores_weight(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  sums_of(r, out);
  const double factor =
      1.0 / std::sqrt(squares(out + r.C, r.C) / static_cast<double>(r.C) + args.number("eps"));
  for (std::int64_t c = 0; c < r.C; ++c) out[c] = out[r.C + c] * factor;
}

extern "C" void control_norm_of_x(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  sums_of(r, out);
  scale(args, r.x, r.C, squares(r.x, r.C), args.number("eps"), out);
}

extern "C" void control_ignores_last_tile(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  sums_of(r, out);
  scale(args, out + r.C, r.C, squares(out + r.C, r.C > 64 ? (r.C - 1) / 64 * 64 : r.C), args.number("eps"),
        out);
}

extern "C" void control_sums_in_bf16(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  sums_of(r, out);
  double sum = 0.0;
  for (std::int64_t c = 0; c < r.C; ++c) sum = to_bf16(sum + out[r.C + c] * out[r.C + c]);
  scale(args, out + r.C, r.C, sum, args.number("eps"), out);
}
