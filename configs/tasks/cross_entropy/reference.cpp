// The oracle of cross_entropy, one row at a time, in fp64; and the legal-rounding model: f32 throughout, the gradient
// rounded once.
#include "cultivar_reference.hpp"

#include <algorithm>
#include <limits>

namespace {

struct Row {
  const ReferenceTensor* logits;
  std::int64_t V, first, target;
  bool counts;

  Row(const ReferenceArgs& args, std::int64_t row) : logits(args.find("logits")), V(args.integer("V")) {
    first = row * V;
    target = static_cast<std::int64_t>(args.tensor("targets")[row]);
    counts = target != args.integer("ignore_index");
  }
  void nothing(double* out) const { std::fill(out, out + 1 + V, 0.0); }

  // The loss and the gradient, with only the first `count` columns in the sum.
  void compute(double* out, std::int64_t count) const {
    double* const values = out + 1;
    logits->read(first, V, values);
    const double top = reference_max(values, V), of_target = values[target];
    for (std::int64_t v = 0; v < V; ++v) values[v] -= top;
    reference_exp_all(values, V);
    const double sum = reference_sum(values, count), factor = 1.0 / sum;
    for (std::int64_t v = 0; v < V; ++v) values[v] *= factor;
    values[target] -= 1.0;
    out[0] = std::log(sum) + (top - of_target);
  }
};

}  // namespace

// out: the row's loss, then V elements of dlogits.
extern "C" void reference_row(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  if (!r.counts) return r.nothing(out);
  r.compute(out, r.V);
}

extern "C" void reference_row_rounded(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  if (!r.counts) return r.nothing(out);
  double* const values = out + 1;
  r.logits->read(r.first, r.V, values);
  const auto top = static_cast<float>(reference_max(values, r.V));
  const auto of_target = static_cast<float>(values[r.target]);
  for (std::int64_t v = 0; v < r.V; ++v) values[v] = static_cast<float>(values[v]) - top;
  reference_exp_all(values, r.V);
  float sum = 0.0f;
  for (std::int64_t v = 0; v < r.V; ++v) {
    const auto weight = static_cast<float>(values[v]);
    values[v] = weight;
    sum += weight;
  }
  const float loss = std::log(sum) + (top - of_target);
  for (std::int64_t v = 0; v < r.V; ++v) values[v] = static_cast<float>(values[v]) / sum;
  values[r.target] = static_cast<float>(values[r.target]) - 1.0f;
  args.round_all(values, r.V);
  // A kernel may also subtract the logit from the rounded logarithm of the whole sum, which then has an error
  // relative to its own size.
  const double whole = std::abs(static_cast<double>(top) + std::log(static_cast<double>(sum)));
  out[0] = static_cast<double>(loss) + 0.5 * std::numeric_limits<float>::epsilon() * whole;
}

// --- Wrong kernels that the checks must refuse. ---

extern "C" void control_ignores_last_tile(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  if (!r.counts) return r.nothing(out);
  r.compute(out, r.V > 64 ? (r.V - 1) / 64 * 64 : r.V);
}

extern "C" void control_forgets_the_target(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  if (!r.counts) return r.nothing(out);
  r.compute(out, r.V);
  out[1 + r.target] += 1.0;
}

extern "C" void control_counts_ignored_rows(const ReferenceArgs& args, std::int64_t row, double* out) {
  Row r(args, row);
  if (!r.counts) r.target = 0;
  r.compute(out, r.V);
}

extern "C" void control_next_target(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  if (!r.counts) return r.nothing(out);
  r.compute(out, r.V);
  out[1 + r.target] += 1.0;
  out[1 + (r.target + 1) % r.V] -= 1.0;
}
