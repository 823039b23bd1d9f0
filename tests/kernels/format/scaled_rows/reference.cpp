#include "cultivar_reference.hpp"

extern "C" void reference_row(const ReferenceArgs& args, std::int64_t row, double* out) {
  const std::int64_t C = args.integer("C");
  for (std::int64_t c = 0; c < C; ++c) out[c] = args.tensor("x")[row * C + c] * args.tensor("s")[row];
}

extern "C" void reference_row_rounded(const ReferenceArgs& args, std::int64_t row, double* out) {
  reference_row(args, row, out);
  for (std::int64_t c = 0; c < args.integer("C"); ++c) out[c] = args.round(out[c]);
}

extern "C" void control_leaves_out_the_factor(const ReferenceArgs& args, std::int64_t row, double* out) {
  const std::int64_t C = args.integer("C");
  for (std::int64_t c = 0; c < C; ++c) out[c] = args.tensor("x")[row * C + c];
}
