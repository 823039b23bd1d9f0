// The oracle of layernorm, one row at a time, in fp64; and the legal-rounding model: f32 throughout, rounded once.
#include "cultivar_reference.hpp"

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

struct Moments {
  double mean, variance;
};

// Of the first `columns` columns, divided by C.
Moments moments(const Row& r, std::int64_t columns) {
  double sum = 0.0, squares = 0.0;
  for (std::int64_t c = 0; c < columns; ++c) sum += r.x[c];
  const double mean = sum / static_cast<double>(r.C);
  for (std::int64_t c = 0; c < columns; ++c) squares += (r.x[c] - mean) * (r.x[c] - mean);
  return {mean, squares / static_cast<double>(r.C)};
}

void scale(const ReferenceArgs& args, const Row& r, const Moments& m, double* out) {
  const double *const w = args.tensor("w"), *const b = args.tensor("b");
  const double factor = 1.0 / std::sqrt(m.variance + args.number("eps"));
  for (std::int64_t c = 0; c < r.C; ++c) out[c] = (r.x[c] - m.mean) * factor * w[c] + b[c];
}

}  // namespace

// out: C elements of y.
extern "C" void reference_row(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  scale(args, r, moments(r, r.C), out);
}

extern "C" void reference_row_rounded(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  const double *const w = args.tensor("w"), *const b = args.tensor("b");
  const auto count = static_cast<float>(r.C);
  float sum = 0.0f, squares = 0.0f;
  for (std::int64_t c = 0; c < r.C; ++c) sum += static_cast<float>(r.x[c]);
  const float mean = sum / count;
  for (std::int64_t c = 0; c < r.C; ++c) {
    const float deviation = static_cast<float>(r.x[c]) - mean;
    squares += deviation * deviation;
  }
  const float factor = 1.0f / std::sqrt(squares / count + static_cast<float>(args.number("eps")));
  for (std::int64_t c = 0; c < r.C; ++c)
    out[c] = args.round((static_cast<float>(r.x[c]) - mean) * factor * static_cast<float>(w[c]) +
                        static_cast<float>(b[c]));
}

// --- Wrong kernels that the checks must refuse. ---

extern "C" void control_ignores_eps(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  Moments m = moments(r, r.C);
  m.variance -= args.number("eps");
  if (m.variance <= 0.0) m.variance = 1e-300;
  scale(args, r, m, out);
}

extern "C" void control_ignores_weight(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  const Moments m = moments(r, r.C);
  const double* const b = args.tensor("b");
  const double factor = 1.0 / std::sqrt(m.variance + args.number("eps"));
  for (std::int64_t c = 0; c < r.C; ++c) out[c] = (r.x[c] - m.mean) * factor + b[c];
}

extern "C" void control_ignores_bias(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  const double* const b = args.tensor("b");
  scale(args, r, moments(r, r.C), out);
  for (std::int64_t c = 0; c < r.C; ++c) out[c] -= b[c];
}

extern "C" void control_keeps_mean(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  Moments m = moments(r, r.C);
  m.variance += m.mean * m.mean;
  m.mean = 0.0;
  scale(args, r, m, out);
}

extern "C" void control_ignores_last_tile(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  scale(args, r, moments(r, r.C > 64 ? (r.C - 1) / 64 * 64 : r.C), out);
}

extern "C" void control_variance_of_squares(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  Moments m = moments(r, r.C);
  const double mean = to_bf16(m.mean);
  m.variance = to_bf16(m.variance + m.mean * m.mean) - mean * mean;
  if (m.variance <= 0.0) m.variance = 1e-30;
  scale(args, r, m, out);
}
