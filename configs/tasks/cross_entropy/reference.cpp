// The oracle of cross_entropy, one row at a time, in fp64; and the legal-rounding model: f32 throughout, the gradient
// rounded once.
#include "cultivar_reference.hpp"

#include <algorithm>
#include <limits>

namespace {

struct Row {
  const double* logits;
  std::int64_t V, target;
  bool counts;

  Row(const ReferenceArgs& args, std::int64_t row) : V(args.integer("V")) {
    logits = args.tensor("logits") + row * V;
    target = static_cast<std::int64_t>(args.tensor("targets")[row]);
    counts = target != args.integer("ignore_index");
  }
  double maximum() const { return *std::max_element(logits, logits + V); }
  void nothing(double* out) const { std::fill(out, out + 1 + V, 0.0); }

  // The loss and the gradient, with only the first `count` columns in the sum.
  void compute(double* out, std::int64_t count) const {
    const double top = maximum();
    double sum = 0.0;
    for (std::int64_t v = 0; v < V; ++v) {
      out[1 + v] = std::exp(logits[v] - top);
      if (v < count) sum += out[1 + v];
    }
    for (std::int64_t v = 0; v < V; ++v) out[1 + v] /= sum;
    out[1 + target] -= 1.0;
    out[0] = std::log(sum) + (top - logits[target]);
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
  const auto top = static_cast<float>(r.maximum());
  float sum = 0.0f;
  for (std::int64_t v = 0; v < r.V; ++v) {
    const float weight = std::exp(static_cast<float>(r.logits[v]) - top);
    out[1 + v] = weight;
    sum += weight;
  }
  const float loss = std::log(sum) + (top - static_cast<float>(r.logits[r.target]));
  for (std::int64_t v = 0; v < r.V; ++v)
    out[1 + v] = args.round(static_cast<float>(out[1 + v]) / sum - (v == r.target ? 1.0f : 0.0f));
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
