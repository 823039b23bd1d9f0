#include "cultivar_reference.hpp"

#include <algorithm>
#include <cmath>

namespace {

struct Row {
  const double *a, *b;
  std::int64_t N, K;
  Row(const ReferenceArgs& args, std::int64_t row)
      : b(args.tensor("b")), N(args.integer("N")), K(args.integer("K")) {
    a = args.tensor("a") + row * K;
  }
};

}  // namespace

extern "C" void reference_row(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  std::fill(out, out + r.N, 0.0);
  for (std::int64_t k = 0; k < r.K; ++k)
    for (std::int64_t n = 0; n < r.N; ++n) out[n] += r.a[k] * r.b[k * r.N + n];
}

extern "C" void reference_row_rounded(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  const bool tf32 = args.integer("tf32") != 0;  // what is in fp8 is exact in TF32
  std::fill(out, out + r.N, 0.0);
  for (std::int64_t k = 0; k < r.K; ++k)
    for (std::int64_t n = 0; n < r.N; ++n) {
      const auto factor = static_cast<float>(r.b[k * r.N + n]);
      out[n] =
          static_cast<float>(out[n]) + static_cast<float>(r.a[k]) * (tf32 ? args.round_tf32(factor) : factor);
    }
}

// Two bits of fraction and one more of exponent: the value of the same byte in the other format of 8 bits.
extern "C" void control_takes_e5m2(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  std::fill(out, out + r.N, 0.0);
  for (std::int64_t k = 0; k < r.K; ++k) {
    int exponent = 0;
    const double fraction = 2.0 * std::frexp(std::abs(r.a[k]), &exponent);
    const double other =
        r.a[k] == 0.0
            ? 0.0
            : std::copysign(std::ldexp(1.0 + std::floor(8.0 * (fraction - 1.0)) / 8.0, 2 * exponent), r.a[k]);
    for (std::int64_t n = 0; n < r.N; ++n) out[n] += other * r.b[k * r.N + n];
  }
}
