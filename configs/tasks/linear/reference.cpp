// The oracle of linear, one row of y at a time, in fp64; and the legal-rounding model: f32 throughout, rounded once.
#include "cultivar_reference.hpp"

#include <algorithm>
#include <bit>
#include <numbers>
#include <vector>

namespace {

constexpr std::int64_t kPart = 1024;  // elements of w that are read at a time
constexpr std::int64_t kColumns = 8;  // that are summed beside each other

struct Row {
  const ReferenceTensor* w;
  const double* bias;
  std::int64_t N, K;
  bool with_bias, gelu;
  std::vector<double> x;
  Row(const ReferenceArgs& args, std::int64_t row)
      : w(args.find("w")),
        bias(args.tensor("bias")),
        N(args.integer("N")),
        K(args.integer("K")),
        with_bias(args.integer("with_bias") != 0),
        gelu(args.integer("gelu") != 0),
        x(static_cast<std::size_t>(K)) {
    args.find("x")->read(row * K, K, x.data());
  }
  // The first `terms` terms of a sum, in eight parts.
  double sum(std::int64_t n, std::int64_t terms) const {
    double of_w[kPart], parts[8] = {};
    for (std::int64_t k = 0; k < terms; k += kPart) {
      const std::int64_t some = std::min(kPart, terms - k);
      w->read(n * K + k, some, of_w);
      std::int64_t i = 0;
      for (; i + 8 <= some; i += 8)
        for (int l = 0; l < 8; ++l) parts[l] += x[k + i + l] * of_w[i + l];
      for (; i < some; ++i) parts[0] += x[k + i] * of_w[i];
    }
    return reference_sum(parts, 8);
  }
  // The sums of kColumns columns from n on, each in f32, term by term.
  void rounded_sums(std::int64_t n, float* sums) const {
    double of_w[kColumns][kPart];
    std::fill(sums, sums + kColumns, 0.0f);
    for (std::int64_t k = 0; k < K; k += kPart) {
      const std::int64_t some = std::min(kPart, K - k);
      for (std::int64_t l = 0; l < kColumns; ++l) w->read(std::min(n + l, N - 1) * K + k, some, of_w[l]);
      for (std::int64_t i = 0; i < some; ++i) {
        const auto of_x = static_cast<float>(x[k + i]);
        for (std::int64_t l = 0; l < kColumns; ++l) sums[l] += of_x * static_cast<float>(of_w[l][i]);
      }
    }
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
  for (std::int64_t n = 0; n < r.N; n += kColumns) {
    const std::int64_t columns = std::min(kColumns, r.N - n);
    float sums[kColumns];
    r.rounded_sums(n, sums);
    for (std::int64_t l = 0; l < columns; ++l) {
      float v = sums[l];
      if (r.with_bias) v += static_cast<float>(r.bias[n + l]);
      if (r.gelu) v = 0.5f * v * (1.0f + std::tanh(0.797884561f * (v + 0.044715f * v * v * v)));
      out[n + l] = v;
    }
  }
  args.round_all(out, r.N);
}

// --- Wrong kernels that the checks must refuse. ---

extern "C" void control_ignores_last_tile(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  for (std::int64_t n = 0; n < r.N; ++n)
    out[n] = finished(r, n, r.sum(n, r.K > 64 ? (r.K - 1) / 64 * 64 : r.K), r.with_bias, r.gelu);
}

extern "C" void control_reads_w_transposed(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  const double* const w = args.tensor("w");
  for (std::int64_t n = 0; n < r.N; ++n) {
    double sum = 0.0;
    for (std::int64_t k = 0; k < r.K; ++k) sum += r.x[static_cast<std::size_t>(k)] * w[k * r.N + n];
    out[n] = finished(r, n, sum, r.with_bias, r.gelu);
  }
}

extern "C" void control_sums_in_bf16(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  const double* const w = args.tensor("w");
  for (std::int64_t n = 0; n < r.N; ++n) {
    double sum = 0.0;
    for (std::int64_t k = 0; k < r.K; ++k)
      sum = to_bf16(sum + r.x[static_cast<std::size_t>(k)] * w[n * r.K + k]);
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
