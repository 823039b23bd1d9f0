// The oracle of add_rmsnorm, one row at a time, in fp64; and the legal-rounding model: s is rounded, and the norm is of the
// rounded s, in f32.
#include "cultivar_reference.hpp"

#include <bit>
#include <vector>

namespace {

// Reads the row: x into the first C elements of out, r into the C behind them.
std::int64_t read(const ReferenceArgs& args, std::int64_t row, double* out) {
  const std::int64_t C = args.integer("C");
  args.find("x")->read(row * C, C, out);
  args.find("r")->read(row * C, C, out + C);
  return C;
}

double to_bf16(double value) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  return std::bit_cast<float>((bits + 0x7fffu + (bits >> 16 & 1)) & 0xffff0000u);
}

double squares(const double* values, std::int64_t columns) {
  double sums[8] = {};
  std::int64_t c = 0;
  for (; c + 8 <= columns; c += 8)
    for (int l = 0; l < 8; ++l) sums[l] += values[c + l] * values[c + l];
  for (; c < columns; ++c) sums[0] += values[c] * values[c];
  return reference_sum(sums, 8);
}

void scale(const ReferenceArgs& args, const double* values, std::int64_t C, double sum, double eps,
           double* out) {
  const double* const w = args.tensor("w");
  const double factor = 1.0 / std::sqrt(sum / static_cast<double>(C) + eps);
  for (std::int64_t c = 0; c < C; ++c) out[c] = values[c] * factor * w[c];
}

// out: C elements of y, which are still those of x, then C of s. Returns C.
std::int64_t sums_of(const ReferenceArgs& args, std::int64_t row, double* out) {
  const std::int64_t C = read(args, row, out);
  for (std::int64_t c = 0; c < C; ++c) out[C + c] += out[c];
  return C;
}

}  // namespace

extern "C" void reference_row(const ReferenceArgs& args, std::int64_t row, double* out) {
  const std::int64_t C = sums_of(args, row, out);
  scale(args, out + C, C, squares(out + C, C), args.number("eps"), out);
}

extern "C" void reference_row_rounded(const ReferenceArgs& args, std::int64_t row, double* out) {
  const std::int64_t C = read(args, row, out);
  const double* const w = args.tensor("w");
  double* const s = out + C;
  for (std::int64_t c = 0; c < C; ++c) s[c] = static_cast<float>(out[c]) + static_cast<float>(s[c]);
  args.round_all(s, C);
  float sum = 0.0f;
  for (std::int64_t c = 0; c < C; ++c) sum += static_cast<float>(s[c]) * static_cast<float>(s[c]);
  const float factor = 1.0f / std::sqrt(sum / static_cast<float>(C) + static_cast<float>(args.number("eps")));
  for (std::int64_t c = 0; c < C; ++c) out[c] = static_cast<float>(s[c]) * factor * static_cast<float>(w[c]);
  args.round_all(out, C);
}

// --- Wrong kernels that the checks must refuse. ---

extern "C" void control_ignores_eps(const ReferenceArgs& args, std::int64_t row, double* out) {
  const std::int64_t C = sums_of(args, row, out);
  scale(args, out + C, C, squares(out + C, C), 1e-300, out);
}

extern "C" void control_ignores_weight(const ReferenceArgs& args, std::int64_t row, double* out) {
  const std::int64_t C = sums_of(args, row, out);
  const double factor = 1.0 / std::sqrt(squares(out + C, C) / static_cast<double>(C) + args.number("eps"));
  for (std::int64_t c = 0; c < C; ++c) out[c] = out[C + c] * factor;
}

extern "C" void control_norm_of_x(const ReferenceArgs& args, std::int64_t row, double* out) {
  const std::int64_t C = sums_of(args, row, out);
  scale(args, out, C, squares(out, C), args.number("eps"), out);
}

extern "C" void control_ignores_last_tile(const ReferenceArgs& args, std::int64_t row, double* out) {
  const std::int64_t C = sums_of(args, row, out);
  scale(args, out + C, C, squares(out + C, C > 64 ? (C - 1) / 64 * 64 : C), args.number("eps"), out);
}

extern "C" void control_sums_in_bf16(const ReferenceArgs& args, std::int64_t row, double* out) {
  const std::int64_t C = sums_of(args, row, out);
  double sum = 0.0;
  for (std::int64_t c = 0; c < C; ++c) sum = to_bf16(sum + out[C + c] * out[C + c]);
  scale(args, out + C, C, sum, args.number("eps"), out);
}
