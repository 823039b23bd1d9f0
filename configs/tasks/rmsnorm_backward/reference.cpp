// The oracle of rmsnorm_backward in fp64: one row of dx, or one element of dw, which has rows of its own; and the
// legal-rounding model: f32 throughout, rounded once.
#include "cultivar_reference.hpp"

#include <algorithm>

namespace {

struct Numbers {
  const double *dy, *x, *w, *rstd;
  std::int64_t R, C;
  explicit Numbers(const ReferenceArgs& args)
      : dy(args.tensor("dy")),
        x(args.tensor("x")),
        w(args.tensor("w")),
        rstd(args.tensor("rstd")),
        R(args.integer("R")),
        C(args.integer("C")) {}

  // The mean of g * n over the first `count` columns, divided by C.
  double mean(std::int64_t row, std::int64_t count) const {
    double sum = 0.0;
    for (std::int64_t i = row * C; i < row * C + count; ++i) sum += dy[i] * w[i - row * C] * (x[i] * rstd[row]);
    return sum / static_cast<double>(C);
  }
  void dx(std::int64_t row, double mean_of_products, double* out) const {
    for (std::int64_t c = 0; c < C; ++c) {
      const std::int64_t i = row * C + c;
      out[c] = rstd[row] * (dy[i] * w[c] - x[i] * rstd[row] * mean_of_products);
    }
  }
  double dw(std::int64_t column, std::int64_t rows) const {
    double sum = 0.0;
    for (std::int64_t r = 0; r < rows; ++r) sum += dy[r * C + column] * (x[r * C + column] * rstd[r]);
    return sum;
  }
};

}  // namespace

// out: C elements of dx; or, if the row is one of dw's, one element of dw.
extern "C" void reference_row(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Numbers n(args);
  if (args.is_row_of("dw"))
    out[0] = n.dw(row, n.R);
  else
    n.dx(row, n.mean(row, n.C), out);
}

extern "C" void reference_row_rounded(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Numbers n(args);
  const auto f32 = [](double value) { return static_cast<float>(value); };
  float sum = 0.0f;
  if (args.is_row_of("dw")) {
    for (std::int64_t r = 0; r < n.R; ++r)
      sum += f32(n.dy[r * n.C + row]) * (f32(n.x[r * n.C + row]) * f32(n.rstd[r]));
    out[0] = args.round(sum);
    return;
  }
  const float rstd = f32(n.rstd[row]);
  for (std::int64_t c = 0; c < n.C; ++c) {
    const std::int64_t i = row * n.C + c;
    sum += f32(n.dy[i]) * f32(n.w[c]) * (f32(n.x[i]) * rstd);
  }
  const float mean = sum / static_cast<float>(n.C);
  for (std::int64_t c = 0; c < n.C; ++c) {
    const std::int64_t i = row * n.C + c;
    out[c] = args.round(rstd * (f32(n.dy[i]) * f32(n.w[c]) - f32(n.x[i]) * rstd * mean));
  }
}

// --- Wrong kernels that the checks must refuse. ---

extern "C" void control_forgets_the_mean(const ReferenceArgs& args, std::int64_t row, double* out) {
  if (args.is_row_of("dw")) return reference_row(args, row, out);
  Numbers(args).dx(row, 0.0, out);
}

extern "C" void control_ignores_last_row(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Numbers n(args);
  if (!args.is_row_of("dw")) return reference_row(args, row, out);
  out[0] = n.dw(row, std::max<std::int64_t>(1, n.R - 1));
}

extern "C" void control_ignores_last_tile(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Numbers n(args);
  if (args.is_row_of("dw")) return reference_row(args, row, out);
  n.dx(row, n.mean(row, n.C > 64 ? (n.C - 1) / 64 * 64 : n.C), out);
}

extern "C" void control_weight_twice(const ReferenceArgs& args, std::int64_t row, double* out) {
  reference_row(args, row, out);
  if (args.is_row_of("dw")) out[0] *= args.tensor("w")[row];
}
