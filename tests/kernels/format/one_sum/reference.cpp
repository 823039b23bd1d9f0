#include "cultivar_reference.hpp"

namespace {

// y of a row, with the first `count` weights.
void row_of(const ReferenceArgs& args, std::int64_t row, std::int64_t count, double* out) {
  const std::int64_t C = args.integer("C");
  double sum = 0.0;
  for (std::int64_t k = 0; k < count; ++k) sum += args.tensor("w")[k];
  const double factor = sum - 4.0 * args.number("K");
  for (std::int64_t c = 0; c < C; ++c) out[c] = args.tensor("x")[row * C + c] * factor;
}

}  // namespace

extern "C" void reference_row(const ReferenceArgs& args, std::int64_t row, double* out) {
  row_of(args, row, args.integer("K"), out);
}

extern "C" void reference_row_rounded(const ReferenceArgs& args, std::int64_t row, double* out) {
  const std::int64_t C = args.integer("C"), K = args.integer("K");
  float sum = 0.0f;
  for (std::int64_t k = 0; k < K; ++k) sum += static_cast<float>(args.tensor("w")[k]);
  const float factor = sum - 4.0f * static_cast<float>(K);
  for (std::int64_t c = 0; c < C; ++c)
    out[c] = args.round(static_cast<float>(args.tensor("x")[row * C + c]) * factor);
}

extern "C" void control_forgets_a_weight(const ReferenceArgs& args, std::int64_t row, double* out) {
  row_of(args, row, args.integer("K") - 1, out);
}
