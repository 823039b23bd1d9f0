// The oracle of rope, one token at a time, in fp64; and the legal-rounding model: f32 throughout, rounded once.
#include "cultivar_reference.hpp"

#include <algorithm>

namespace {

struct Row {
  const double *q, *k, *cos, *sin;
  std::int64_t H, H_kv, D, E;

  Row(const ReferenceArgs& args, std::int64_t row, std::int64_t position)
      : H(args.integer("H")), H_kv(args.integer("H_kv")), D(args.integer("D")), E(args.integer("E")) {
    q = args.tensor("q") + row * H * D;
    k = args.tensor("k") + row * H_kv * D;
    cos = args.tensor("cos") + position * E;
    sin = args.tensor("sin") + position * E;
  }
  static Row at_its_position(const ReferenceArgs& args, std::int64_t row) {
    return Row(args, row, static_cast<std::int64_t>(args.tensor("positions")[row]));
  }

  // Calls rotate(x1, x2, cos, sin, out1, out2) for each pair. `step` is the distance of the elements of a pair.
  template <class Rotate>
  void each(double* out, const Rotate& rotate, bool neighbors = false) const {
    for (std::int64_t head = 0; head < H + H_kv; ++head) {
      const double* const x = head < H ? q + head * D : k + (head - H) * D;
      double* const to = out + head * D;
      for (std::int64_t e = 0; e < E; ++e) {
        const std::int64_t a = neighbors ? 2 * e : e, b = neighbors ? 2 * e + 1 : e + E;
        rotate(x[a], x[b], cos[e], sin[e], to[a], to[b]);
      }
    }
  }
};

void exactly(double a, double b, double c, double s, double& first, double& second) {
  first = a * c - b * s;
  second = b * c + a * s;
}

}  // namespace

// out: H * D elements of q_out, then H_kv * D of k_out.
extern "C" void reference_row(const ReferenceArgs& args, std::int64_t row, double* out) {
  Row::at_its_position(args, row).each(out, exactly);
}

extern "C" void reference_row_rounded(const ReferenceArgs& args, std::int64_t row, double* out) {
  Row::at_its_position(args, row).each(out, [&](double a, double b, double c, double s, double& first, double& second) {
    const auto x = static_cast<float>(a), y = static_cast<float>(b), cosine = static_cast<float>(c),
               sine = static_cast<float>(s);
    first = args.round(x * cosine - y * sine);
    second = args.round(y * cosine + x * sine);
  });
}

// --- Wrong kernels that the checks must refuse. ---

extern "C" void control_other_direction(const ReferenceArgs& args, std::int64_t row, double* out) {
  Row::at_its_position(args, row).each(out, [](double a, double b, double c, double s, double& first, double& second) {
    exactly(a, b, c, -s, first, second);
  });
}

extern "C" void control_pairs_neighbors(const ReferenceArgs& args, std::int64_t row, double* out) {
  Row::at_its_position(args, row).each(out, exactly, true);
}

extern "C" void control_ignores_positions(const ReferenceArgs& args, std::int64_t row, double* out) {
  Row(args, row, row % args.integer("P")).each(out, exactly);
}

extern "C" void control_skips_the_last_head(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r = Row::at_its_position(args, row);
  r.each(out, exactly);
  std::copy_n(r.k + (r.H_kv - 1) * r.D, r.D, out + (r.H + r.H_kv - 1) * r.D);
}
