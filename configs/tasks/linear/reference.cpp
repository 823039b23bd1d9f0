// The oracle of linear, one row of y at a time, in fp64; and the legal-rounding model: f32 throughout, rounded once.
#include "cultivar_reference.hpp"

#include <bit>
#include <numbers>

namespace {

struct Row {
  const double *x, *w, *bias;
  std::int64_t N, K;
  bool with_bias, gelu;
  Row(const ReferenceArgs& args, std::int64_t row)
      : w(args.tensor("w")),
        bias(args.tensor("bias")),
        N(args.integer("N")),
        K(args.integer("K")),
        with_bias(args.integer("with_bias") != 0),
        gelu(args.integer("gelu") != 0) {
    x = args.tensor("x") + row * K;
  }
  // The first `terms` terms of a sum, in four parts.
  double sum(std::int64_t n, std::int64_t terms) const {
    const double* const of_w = w + n * K;
    double parts[4] = {};
    std::int64_t k = 0;
    for (; k + 4 <= terms; k += 4)
      for (int i = 0; i < 4; ++i) parts[i] += x[k + i] * of_w[k + i];
    for (; k < terms; ++k) parts[0] += x[k] * of_w[k];
    return parts[0] + parts[1] + (parts[2] + parts[3]);
  }
};

double gelu_of(double v) {
  return v / (1.0 + std::exp(-2.0 * std::sqrt(2.0 / std::numbers::pi) * (v + 0.044715 * v * v * v)));
}

double finished(const Row& r, std::int64_t n, double sum, bool with_bias, bool gelu) {
  if (with_bias) sum += r.bias[n];
  return gelu ? gelu_of(sum) : sum;
}

double to_bf16(double value) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  return std::bit_cast<float>((bits + 0x7fffu + (bits >> 16 & 1)) & 0xffff0000u);
}

}  // namespace

// out: N elements of y.
extern "C" void reference_row(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  for (std::int64_t n = 0; n < r.N; ++n) out[n] = finished(r, n, r.sum(n, r.K), r.with_bias, r.gelu);
}

extern "C" void reference_row_rounded(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  for (std::int64_t n = 0; n < r.N; ++n) {
    float v = 0.0f;
    for (std::int64_t k = 0; k < r.K; ++k)
      v += static_cast<float>(r.x[k]) * static_cast<float>(r.w[n * r.K + k]);
    if (r.with_bias) v += static_cast<float>(r.bias[n]);
    if (r.gelu) v = 0.5f * v * (1.0f + std::tanh(0.797884561f * (v + 0.044715f * v * v * v)));
    out[n] = args.round(v);
  }
}

// --- Wrong kernels that the checks must refuse. ---

extern "C" void control_ignores_last_tile(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  for (std::int64_t n = 0; n < r.N; ++n)
    out[n] = finished(r, n, r.sum(n, r.K > 64 ? (r.K - 1) / 64 * 64 : r.K), r.with_bias, r.gelu);
}

extern "C" void control_reads_w_transposed(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  for (std::int64_t n = 0; n < r.N; ++n) {
    double sum = 0.0;
    for (std::int64_t k = 0; k < r.K; ++k) sum += r.x[k] * r.w[k * r.N + n];
    out[n] = finished(r, n, sum, r.with_bias, r.gelu);
  }
}

extern "C" void control_sums_in_bf16(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  for (std::int64_t n = 0; n < r.N; ++n) {
    double sum = 0.0;
    for (std::int64_t k = 0; k < r.K; ++k) sum = to_bf16(sum + r.x[k] * r.w[n * r.K + k]);
    out[n] = finished(r, n, sum, r.with_bias, r.gelu);
  }
}

extern "C" void control_ignores_bias(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  for (std::int64_t n = 0; n < r.N; ++n) out[n] = finished(r, n, r.sum(n, r.K), false, r.gelu);
}

extern "C" void control_always_bias(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  for (std::int64_t n = 0; n < r.N; ++n) out[n] = finished(r, n, r.sum(n, r.K), true, r.gelu);
}

extern "C" void control_ignores_gelu(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  for (std::int64_t n = 0; n < r.N; ++n) out[n] = finished(r, n, r.sum(n, r.K), r.with_bias, false);
}

extern "C" void control_gelu_before_bias(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  for (std::int64_t n = 0; n < r.N; ++n) out[n] = gelu_of(r.sum(n, r.K)) + r.bias[n];
}
