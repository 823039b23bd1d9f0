// The oracle of row_reduce, one row at a time, in fp64; and the legal-rounding model: sums in f32, in order within runs
// of 4096 columns, whose sums are then added in order.
#include "cultivar_reference.hpp"

#include <algorithm>

namespace {

struct Row {
  const ReferenceTensor* x;
  std::int64_t first, C;
  Row(const ReferenceArgs& args, std::int64_t row) : x(args.find("x")), C(args.integer("C")) { first = row * C; }

  // Calls use(values, count) for runs of at most 4096 of the first `count` columns.
  template <class Use>
  void runs(std::int64_t count, const Use& use) const {
    constexpr std::int64_t most = 4096;
    double values[most];
    for (std::int64_t c = 0; c < count; c += most) {
      const std::int64_t some = std::min(most, count - c);
      x->read(first + c, some, values);
      use(values, some);
    }
  }
  double sum(std::int64_t count) const {
    double total = 0.0;
    runs(count, [&](const double* values, std::int64_t some) {
      double part = 0.0;
      for (std::int64_t i = 0; i < some; ++i) part += values[i];
      total += part;
    });
    return total;
  }
};

}  // namespace

// out: the row's sum.
extern "C" void reference_row(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  out[0] = r.sum(r.C);
}

extern "C" void reference_row_rounded(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  float total = 0.0f;
  r.runs(r.C, [&](const double* values, std::int64_t some) {
    float part = 0.0f;
    for (std::int64_t i = 0; i < some; ++i) part += static_cast<float>(values[i]);
    total += part;
  });
  out[0] = total;
}

// --- Wrong kernels that the checks must refuse. ---

extern "C" void control_ignores_last_tile(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  out[0] = r.sum(r.C > 64 ? (r.C - 1) / 64 * 64 : r.C);
}

extern "C" void control_sums_in_bf16(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  double total = 0.0;
  r.runs(r.C, [&](const double* values, std::int64_t some) {
    for (std::int64_t i = 0; i < some; i += 8) {
      double part = 0.0;
      for (std::int64_t j = i; j < std::min(some, i + 8); ++j) part += values[j];
      const double unit = part == 0.0 ? 1.0 : std::ldexp(1.0, std::ilogb(part) - 7);
      total += std::nearbyint(part / unit) * unit;
    }
  });
  out[0] = total;
}

extern "C" void control_previous_row(const ReferenceArgs& args, std::int64_t row, double* out) {
  const std::int64_t rows = args.integer("R");
  const Row r(args, (row + rows - 1) % rows);
  out[0] = r.sum(r.C);
}
