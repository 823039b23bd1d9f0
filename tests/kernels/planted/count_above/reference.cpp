#include "cultivar_reference.hpp"

namespace {

double count_of(const ReferenceArgs& args, std::int64_t row, double sign) {
  const std::int64_t C = args.integer("C");
  const double* const x = args.tensor("x") + row * C;
  std::int64_t count = 0;
  for (std::int64_t c = 0; c < C; ++c) count += sign * x[c] > 0.0;
  return static_cast<double>(count);
}

}  // namespace

extern "C" void reference_row(const ReferenceArgs& args, std::int64_t row, double* out) {
  *out = count_of(args, row, 1.0);
}

extern "C" void control_one_more(const ReferenceArgs& args, std::int64_t row, double* out) {
  *out = count_of(args, row, 1.0) + 1;
}

extern "C" void control_of_the_other_sign(const ReferenceArgs& args, std::int64_t row, double* out) {
  *out = count_of(args, row, -1.0);
}
