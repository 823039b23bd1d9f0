// The oracle of attention_paged, one row (one query of one head) at a time: fp64, two passes over the keys. And the
// legal-rounding model: what kernels do that keep logits, softmax and sums in f32, round the probabilities to
// the I/O dtype for the second product, and round O once at the end.
#include "cultivar_reference.hpp"

#include <algorithm>
#include <limits>
#include <vector>

namespace {

struct Row {
  const double *q, *k, *v;  // this query; the pools
  const double* pages;      // of this sequence
  const ReferenceTensor *keys_of, *values_of;
  std::int64_t D, page, key_stride,
      head;  // elements of a head; keys in a page; elements of a key, up to the head
  std::int64_t visible, length,
      capacity;  // keys that the mask leaves, of the sequence, in its row of the table
  float scale;   // a kernel argument, so f32

  // Row number `row`, of a sequence with the pages of sequence `pages_of`.
  Row(const ReferenceArgs& args, std::int64_t row, std::int64_t pages_of = -1)
      : D(args.integer("D")), page(args.integer("PAGE")), scale(static_cast<float>(args.number("scale"))) {
    const auto H = args.integer("H"), H_kv = args.integer("H_kv"), S_q = args.integer("S_q"),
               M = args.integer("M");
    const auto h = row % H, i = row / H % S_q, b = row / H / S_q;  // rows walk [B, S_q, H]
    key_stride = H_kv * D;
    head = h / (H / H_kv) * D;
    keys_of = args.find("k_pages");
    values_of = args.find("v_pages");
    q = args.tensor("q") + row * D;
    k = keys_of->values;
    v = values_of->values;
    pages = args.tensor("page_table") + (pages_of < 0 ? b : pages_of) * M;
    capacity = M * page;
    length = static_cast<std::int64_t>(args.tensor("lengths")[b]);
    visible =
        args.number("causal") != 0.0 ? std::clamp<std::int64_t>(i + length - S_q + 1, 0, length) : length;
  }

  // The element at which key number j begins.
  std::int64_t at(std::int64_t j) const {
    return (static_cast<std::int64_t>(pages[j / page]) * page + j % page) * key_stride + head;
  }
  double logit(std::int64_t j) const { return logit(k + at(j)); }
  double logit(const double* key) const {
    constexpr int lanes = 8;  // partial sums, so that the compiler may use vectors
    double sum[lanes] = {};
    std::int64_t d = 0;
    for (; d + lanes <= D; d += lanes)
      for (int l = 0; l < lanes; ++l) sum[l] += q[d + l] * key[d + l];
    for (; d < D; ++d) sum[0] += q[d] * key[d];
    return (((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]))) *
           double(scale);
  }

  // Nothing visible: O = 0 and LSE = -inf.
  void nothing(double* out) const {
    std::fill(out, out + D, 0.0);
    out[D] = -std::numeric_limits<double>::infinity();
  }

  // Exact attention over the first `count` keys.
  void attend(double* out, std::int64_t count) const {
    if (count <= 0) return nothing(out);
    std::vector<double> p(static_cast<std::size_t>(count)), line(static_cast<std::size_t>(D));
    double maximum = -std::numeric_limits<double>::infinity(), sum = 0.0;
    constexpr std::int64_t ahead = 12;
    for (std::int64_t j = 0; j < count; ++j) {
      if (j + ahead < count) keys_of->expect(at(j + ahead), D);
      keys_of->read(at(j), D, line.data());
      maximum = std::max(maximum, p[j] = logit(line.data()));
    }
    std::fill(out, out + D, 0.0);
    const double* const value = line.data();
    for (std::int64_t j = 0; j < count; ++j) {
      if (j + ahead < count) values_of->expect(at(j + ahead), D);
      values_of->read(at(j), D, line.data());
      const double weight = std::exp(p[j] - maximum);
      sum += weight;
      for (std::int64_t d = 0; d < D; ++d) out[d] += weight * value[d];
    }
    for (std::int64_t d = 0; d < D; ++d) out[d] /= sum;
    out[D] = maximum + std::log(sum);
  }
};

}  // namespace

// out: D elements of o, then the row's lse.
extern "C" void reference_row(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  r.attend(out, r.visible);
}

namespace {

// Both legal kernels round as the format allows and sum in f32, in different orders. The tolerance follows the one that
// is farther from exact, element by element: a kernel may be as careless as either.

// All logits, then their maximum, then the weighted values; scaled after the product.
void two_passes(const ReferenceArgs& args, const Row& r, double* out) {
  const auto count = static_cast<std::size_t>(r.visible);
  std::vector<float> q(r.q, r.q + r.D), logits(count), sums(static_cast<std::size_t>(r.D), 0.0f);
  constexpr std::size_t together = 8;  // each logit is summed in order; eight at a time only for speed
  float maximum = -std::numeric_limits<float>::infinity();
  for (std::size_t j = 0; j < count; j += together) {
    const std::size_t n = std::min(together, count - j);
    float dot[together] = {};
    const double* keys[together];
    for (std::size_t u = 0; u < n; ++u) keys[u] = r.k + r.at(static_cast<std::int64_t>(j + u));
    for (std::int64_t d = 0; d < r.D; ++d)
      for (std::size_t u = 0; u < n; ++u) dot[u] += q[d] * static_cast<float>(keys[u][d]);
    for (std::size_t u = 0; u < n; ++u) maximum = std::max(maximum, logits[j + u] = dot[u] * r.scale);
  }
  float sum = 0.0f;
  for (std::size_t j = 0; j < count; ++j) {
    const float weight = std::exp(logits[j] - maximum);
    sum += weight;
    const float p = static_cast<float>(args.round(weight));
    const double* value = r.v + r.at(static_cast<std::int64_t>(j));
    for (std::int64_t d = 0; d < r.D; ++d) sums[d] += p * static_cast<float>(value[d]);
  }
  for (std::int64_t d = 0; d < r.D; ++d) out[d] = args.round(sums[d] / sum);
  out[r.D] = maximum + std::log(sum);
}

// Tile by tile with a running maximum; scale and log2(e) go into the query beforehand (FlashAttention-2's way).
// Values of 16 bits are multiplied by tensor cores, and summed as these do.
void online(const ReferenceArgs& args, const Row& r, double* out) {
  constexpr std::int64_t tile = 32;
  constexpr float log2e = 1.44269504f, ln2 = 0.693147181f;
  std::vector<float> q(static_cast<std::size_t>(r.D)), sums(q.size(), 0.0f);
  for (std::int64_t d = 0; d < r.D; ++d) q[d] = static_cast<float>(r.q[d]) * (r.scale * log2e);
  float maximum = -std::numeric_limits<float>::infinity(), sum = 0.0f, logits[tile];
  for (std::int64_t begin = 0; begin < r.visible; begin += tile) {
    const auto n = std::min(tile, r.visible - begin);
    const float before = maximum;
    float dots[tile] = {};
    const double* keys[tile];
    for (std::int64_t u = 0; u < n; ++u) keys[u] = r.k + r.at(begin + u);
    for (std::int64_t d = 0; d < r.D; ++d)
      for (std::int64_t u = 0; u < n; ++u) dots[u] += q[d] * static_cast<float>(keys[u][d]);
    for (std::int64_t u = 0; u < n; ++u) maximum = std::max(maximum, logits[u] = dots[u]);
    const float rescale = std::exp2(before - maximum);
    sum *= rescale;
    for (auto& value : sums) value *= rescale;
    float weights[tile];
    const double* values[tile];
    for (std::int64_t u = 0; u < n; ++u) {
      const float weight = std::exp2(logits[u] - maximum);
      sum += weight;
      weights[u] = static_cast<float>(args.round(weight));
      values[u] = r.v + r.at(begin + u);
    }
    if (args.rounds_to == ReferenceType::f32) {
      for (std::int64_t u = 0; u < n; ++u)
        for (std::int64_t d = 0; d < r.D; ++d) sums[d] += weights[u] * static_cast<float>(values[u][d]);
      continue;
    }
    for (std::int64_t u = 0; u < n; u += 16)
      reference_tensor_core_add(weights + u, values + u, static_cast<int>(std::min<std::int64_t>(16, n - u)),
                                r.D, sums.data());
  }
  for (std::int64_t d = 0; d < r.D; ++d) out[d] = args.round(sums[d] / sum);
  out[r.D] = (maximum + std::log2(sum)) * ln2;
}

}  // namespace

extern "C" void reference_row_rounded(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  if (r.visible <= 0) return r.nothing(out);
  std::vector<double> exact(static_cast<std::size_t>(r.D) + 1), other(exact.size());
  r.attend(exact.data(), r.visible);
  two_passes(args, r, out);
  online(args, r, other.data());
  for (std::size_t e = 0; e < exact.size(); ++e)
    if (std::abs(other[e] - exact[e]) > std::abs(out[e] - exact[e])) out[e] = other[e];
  // Fast kernels have exp2(fma(x, scale * log2(e), -maximum)) with a maximum that is scaled and rounded. Beyond this size its
  // rounding alone is more than f16 or an exponential bears: such logits, which no model has, are asked of no kernel.
  constexpr double largest = 0x1p27;
  if (std::abs(exact.back()) > largest)
    for (std::size_t e = 0; e < exact.size(); ++e) out[e] = 2.0 * exact[e] + 1.0;
  // Both have a weight of exactly 1 for the greatest logit. Beside another base an f32 exponential and the sum are a
  // few parts in 2^23 off, which of the logarithm is absolute, however near zero that is.
  constexpr double least = 2.0 * std::numeric_limits<float>::epsilon();
  if (double& lse = out[r.D]; std::abs(lse - exact.back()) < least) lse = exact.back() + least;
}

// --- Wrong kernels that the checks must refuse. ---

extern "C" void control_mean_of_v(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  if (r.visible <= 0) return r.nothing(out);
  r.attend(out, r.visible);  // a right lse, so that only O can give it away
  std::fill(out, out + r.D, 0.0);
  for (std::int64_t j = 0; j < r.visible; ++j)
    for (std::int64_t d = 0; d < r.D; ++d) out[d] += r.v[r.at(j) + d] / double(r.visible);
}

extern "C" void control_ignores_mask(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  r.attend(out, r.length);
}

extern "C" void control_ignores_lengths(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  r.attend(out, r.capacity);
}

extern "C" void control_drops_last_key(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  r.attend(out, r.visible - 1);
}

extern "C" void control_drops_last_page(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  r.attend(out, std::min(r.visible, r.length / r.page * r.page));
}

namespace {

// Attention with the page table [M] of this sequence replaced.
void with_pages(const ReferenceArgs& args, std::int64_t row, double* out, std::int64_t first) {
  Row r(args, row);
  std::vector<double> pages(static_cast<std::size_t>(args.integer("M")));
  for (std::size_t p = 0; p < pages.size(); ++p)
    pages[p] = static_cast<double>((first + static_cast<std::int64_t>(p)) % args.integer("N"));
  r.pages = pages.data();
  r.attend(out, r.visible);
}

}  // namespace

extern "C" void control_ignores_table(const ReferenceArgs& args, std::int64_t row, double* out) {
  with_pages(args, row, out, row / args.integer("H") / args.integer("S_q") * args.integer("M"));
}

extern "C" void control_next_pages(const ReferenceArgs& args, std::int64_t row, double* out) {
  with_pages(args, row, out, static_cast<std::int64_t>(Row(args, row).pages[0]));
}

extern "C" void control_first_table(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row, 0);
  r.attend(out, r.visible);
}

extern "C" void control_drops_rescale(const ReferenceArgs& args, std::int64_t row, double* out) {
  const Row r(args, row);
  if (r.visible <= 0) return r.nothing(out);
  double maximum = -std::numeric_limits<double>::infinity(), sum = 0.0;
  std::fill(out, out + r.D, 0.0);
  for (std::int64_t tile = 0; tile < r.visible; tile += 64) {
    const auto end = std::min(tile + 64, r.visible);
    for (std::int64_t j = tile; j < end; ++j) maximum = std::max(maximum, r.logit(j));
    for (std::int64_t j = tile; j < end; ++j) {
      const double weight = std::exp(r.logit(j) - maximum);
      sum += weight;
      for (std::int64_t d = 0; d < r.D; ++d) out[d] += weight * r.v[r.at(j) + d];
    }
  }
  for (std::int64_t d = 0; d < r.D; ++d) out[d] /= sum;
  out[r.D] = maximum + std::log(sum);
}
