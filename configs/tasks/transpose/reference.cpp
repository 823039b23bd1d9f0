// The oracle of transpose, one row of y at a time. Nothing is rounded.
#include "cultivar_reference.hpp"

namespace {

struct Row {
  const double* x;  // the matrix
  std::int64_t R, C, b, c;
  Row(const ReferenceArgs& args, std::int64_t row)
      : R(args.integer("R")), C(args.integer("C")), b(row / C), c(row % C) {
    x = args.tensor("x") + b * R * C;
  }
};

}  // namespace

// out: R elements of y.
extern "C" void reference_row(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row m(args, row);
  for (std::int64_t r = 0; r < m.R; ++r) out[r] = m.x[r * m.C + m.c];
}

// --- Wrong kernels that the checks must refuse. ---

extern "C" void control_copies(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row m(args, row);
  for (std::int64_t r = 0; r < m.R; ++r) out[r] = m.x[m.c * m.R + r];
}

extern "C" void control_repeats_first_matrix(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row m(args, row);
  const double* const first = args.tensor("x");
  for (std::int64_t r = 0; r < m.R; ++r) out[r] = first[r * m.C + m.c];
}

extern "C" void control_mirrors(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row m(args, row);
  for (std::int64_t r = 0; r < m.R; ++r) out[r] = m.x[(m.R - 1 - r) * m.C + m.c];
}

extern "C" void control_skips_last_tile(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row m(args, row);
  for (std::int64_t r = 0; r < m.R; ++r)
    out[r] = m.R > 64 && r >= (m.R - 1) / 64 * 64 ? 0.0 : m.x[r * m.C + m.c];
}
