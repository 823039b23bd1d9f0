#include "cultivar_reference.hpp"

namespace {

double greatest(const ReferenceArgs& args, std::int64_t row) {
  const std::int64_t C = args.integer("C");
  const double* const x = args.tensor("x") + row * C;
  std::int64_t best = 0;
  for (std::int64_t c = 1; c < C; ++c)
    if (x[c] > x[best]) best = c;
  return static_cast<double>(best);
}

}  // namespace

extern "C" void reference_row(const ReferenceArgs& args, std::int64_t row, double* out) {
  *out = greatest(args, row);
}

extern "C" void control_one_more(const ReferenceArgs& args, std::int64_t row, double* out) {
  *out = greatest(args, row) + 1;
}
