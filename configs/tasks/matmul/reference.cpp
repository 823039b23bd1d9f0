// The oracle of matmul, one row of C at a time, in fp64; and the legal-rounding model: sums in f32, rounded once.
#include "cultivar_reference.hpp"

#include <algorithm>
#include <bit>

namespace {

struct Row {
  const double *a, *b;
  std::int64_t N, K;
  Row(const ReferenceArgs& args, std::int64_t row)
      : b(args.tensor("b")), N(args.integer("N")), K(args.integer("K")) {
    a = args.tensor("a") + row * K;
  }
  // The first `terms` of each sum.
  void sum(std::int64_t terms, double* out) const {
    std::fill(out, out + N, 0.0);
    for (std::int64_t k = 0; k < terms; ++k)
      for (std::int64_t n = 0; n < N; ++n) out[n] += a[k] * b[k * N + n];
  }
};

double to_bf16(double value) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  return std::bit_cast<float>((bits + 0x7fffu + (bits >> 16 & 1)) & 0xffff0000u);
}

}  // namespace

// out: N elements of c.
extern "C" void reference_row(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  r.sum(r.K, out);
}

extern "C" void reference_row_rounded(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  std::fill(out, out + r.N, 0.0);
  for (std::int64_t k = 0; k < r.K; ++k) {
    const auto a = static_cast<float>(r.a[k]);
    for (std::int64_t n = 0; n < r.N; ++n)
      out[n] = static_cast<float>(out[n]) + a * static_cast<float>(r.b[k * r.N + n]);
  }
  for (std::int64_t n = 0; n < r.N; ++n) out[n] = args.round(out[n]);
}

// --- Wrong kernels that the checks must refuse. ---

extern "C" void control_ignores_last_tile(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  r.sum(r.K > 64 ? (r.K - 1) / 64 * 64 : r.K, out);
}

extern "C" void control_reads_b_transposed(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  for (std::int64_t n = 0; n < r.N; ++n) {
    out[n] = 0.0;
    for (std::int64_t k = 0; k < r.K; ++k) out[n] += r.a[k] * r.b[n * r.K + k];
  }
}

extern "C" void control_sums_in_bf16(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  std::fill(out, out + r.N, 0.0);
  for (std::int64_t k = 0; k < r.K; ++k)
    for (std::int64_t n = 0; n < r.N; ++n) out[n] = to_bf16(out[n] + r.a[k] * r.b[k * r.N + n]);
}
