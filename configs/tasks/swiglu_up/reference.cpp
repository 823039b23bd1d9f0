// The oracle of swiglu_up, one row of y at a time, in fp64; and the legal-rounding model: f32 throughout, rounded once.
#include "cultivar_reference.hpp"

#include <bit>

namespace {

struct Row {
  const double *x, *gate, *up;
  std::int64_t N, K;
  Row(const ReferenceArgs& args, std::int64_t row)
      : gate(args.tensor("w_gate")), up(args.tensor("w_up")), N(args.integer("N")), K(args.integer("K")) {
    x = args.tensor("x") + row * K;
  }
  // The first `terms` terms of a sum, in four parts.
  double sum(const double* weights, std::int64_t n, std::int64_t terms) const {
    const double* const w = weights + n * K;
    double parts[4] = {};
    std::int64_t k = 0;
    for (; k + 4 <= terms; k += 4)
      for (int i = 0; i < 4; ++i) parts[i] += x[k + i] * w[k + i];
    for (; k < terms; ++k) parts[0] += x[k] * w[k];
    return parts[0] + parts[1] + (parts[2] + parts[3]);
  }
};

double silu(double v) {
  return v / (1.0 + std::exp(-v));
}

double to_bf16(double value) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  return std::bit_cast<float>((bits + 0x7fffu + (bits >> 16 & 1)) & 0xffff0000u);
}

}  // namespace

// out: N elements of y.
extern "C" void reference_row(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  for (std::int64_t n = 0; n < r.N; ++n) out[n] = silu(r.sum(r.gate, n, r.K)) * r.sum(r.up, n, r.K);
}

extern "C" void reference_row_rounded(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  for (std::int64_t n = 0; n < r.N; ++n) {
    float gate = 0.0f, up = 0.0f;
    for (std::int64_t k = 0; k < r.K; ++k) {
      gate += static_cast<float>(r.x[k]) * static_cast<float>(r.gate[n * r.K + k]);
      up += static_cast<float>(r.x[k]) * static_cast<float>(r.up[n * r.K + k]);
    }
    out[n] = args.round(gate / (1.0f + std::exp(-gate)) * up);
  }
}

// --- Wrong kernels that the checks must refuse. ---

extern "C" void control_ignores_last_tile(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  const std::int64_t terms = r.K > 64 ? (r.K - 1) / 64 * 64 : r.K;
  for (std::int64_t n = 0; n < r.N; ++n) out[n] = silu(r.sum(r.gate, n, terms)) * r.sum(r.up, n, terms);
}

extern "C" void control_swapped(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  for (std::int64_t n = 0; n < r.N; ++n) out[n] = silu(r.sum(r.up, n, r.K)) * r.sum(r.gate, n, r.K);
}

extern "C" void control_no_silu(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  for (std::int64_t n = 0; n < r.N; ++n) out[n] = r.sum(r.gate, n, r.K) * r.sum(r.up, n, r.K);
}

extern "C" void control_sums_in_bf16(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  for (std::int64_t n = 0; n < r.N; ++n) {
    double gate = 0.0, up = 0.0;
    for (std::int64_t k = 0; k < r.K; ++k) {
      gate = to_bf16(gate + r.x[k] * r.gate[n * r.K + k]);
      up = to_bf16(up + r.x[k] * r.up[n * r.K + k]);
    }
    out[n] = silu(gate) * up;
  }
}
