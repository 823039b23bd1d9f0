#include "evaluators/check/compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace cultivar {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool same_non_finite(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b;
}

struct Errors {
  double max = 0.0, square_sum = 0.0, reference_max = 0.0, reference_square_sum = 0.0;
  std::int64_t count = 0, wrong_non_finite = 0;

  void add(double got, double want) {
    if (!std::isfinite(want) || !std::isfinite(got)) {
      if (!same_non_finite(got, want)) ++wrong_non_finite;
      return;
    }
    const double error = std::abs(got - want);
    max = std::max(max, error);
    square_sum += error * error;
    reference_max = std::max(reference_max, std::abs(want));
    reference_square_sum += want * want;
    ++count;
  }
  void add(const Errors& other) {
    max = std::max(max, other.max);
    reference_max = std::max(reference_max, other.reference_max);
    square_sum += other.square_sum;
    reference_square_sum += other.reference_square_sum;
    count += other.count;
    wrong_non_finite += other.wrong_non_finite;
  }
  double rms() const { return count == 0 ? 0.0 : std::sqrt(square_sum / static_cast<double>(count)); }
  double reference_rms() const {
    return count == 0 ? 0.0 : std::sqrt(reference_square_sum / static_cast<double>(count));
  }
};

double ratio_of(double error, double allowed) {
  if (error == 0.0) return 0.0;
  return allowed > 0.0 ? error / allowed : kInfinity;
}

// The compared rows of one output tensor, with the oracle's rows.
class OutputCheck {
 public:
  OutputCheck(const Task& task, const RowLayout& layout, const OutputLayout& output,
              std::span<const std::byte> bytes, const ExpectedRows& expected)
      : tolerance_(task.tolerance),
        layout_(layout),
        output_(output),
        span_(layout.span_of(output, expected.rows)),
        rows_(expected.rows.subspan(span_.first, span_.last - span_.first)),
        exact_(expected.exact),
        got_(rows_.size() * output.element_offsets.size()) {
    decode_rows(bytes);
    block_rows_ =
        std::max<std::int64_t>(1, expected.block_rows > 0 ? expected.block_rows : tolerance_.block_rows);
    for (std::size_t i = 0; i < rows_.size(); ++i)
      if (i == 0 || block_of(i) != block_of(i - 1)) starts_.push_back(i);
    starts_.push_back(rows_.size());
    // A last block of only a few rows has no error scale of its own, so it is merged with the preceding
    // block.
    if (blocks() > 1 &&
        starts_.back() - starts_[blocks() - 1] < static_cast<std::size_t>(block_rows_ + 1) / 2)
      starts_.erase(starts_.end() - 2);
  }

  // Computes the error ratios. `rounded` may be null if no error exceeds the floor.
  double judge(const std::vector<double>* rounded, const LegalError& at_least = {}) {
    ratios_.assign(blocks(), 0.0);
    allowed_max_.assign(blocks(), 0.0);
    Errors all, all_rounded;
    for (std::size_t b = 0; b < blocks(); ++b) {
      const Errors errors = errors_of(b, nullptr);
      const Errors legal = rounded == nullptr ? Errors{} : errors_of(b, rounded);
      all.add(errors);
      all_rounded.add(legal);
      ratios_[b] = ratio(errors, legal, at_least, &allowed_max_[b]);
    }
    double ignored = 0.0;
    whole_ = ratio(all, all_rounded, at_least, &ignored);
    wrong_non_finite_ = all.wrong_non_finite;
    return std::max(whole_, ratios_.empty() ? 0.0 : *std::max_element(ratios_.begin(), ratios_.end()));
  }

  std::string reason() const {
    const std::int64_t bad = std::count_if(ratios_.begin(), ratios_.end(), [](double r) { return r > 1.0; });
    if (bad == 0)
      return fmt::format("{} differs from the oracle by {:.3g} x the allowed error", output_.name, whole_);
    if (blocks() == 1) return fmt::format("{} differs from the oracle", output_.name);
    return fmt::format("{} differs from the oracle in {} of {} blocks of {} rows", output_.name, bad,
                       blocks(), block_rows_);
  }

  std::string diagnostics() const;

 private:
  std::size_t blocks() const { return starts_.size() - 1; }
  std::size_t row_size() const { return output_.element_offsets.size(); }
  std::int64_t block_of(std::size_t i) const {
    return (rows_[i] - layout_.group(output_).first) / block_rows_;
  }
  double want(std::size_t i, std::size_t e) const { return of(exact_, i, e); }
  double of(std::span<const double> values, std::size_t i, std::size_t e) const {
    const auto width = static_cast<std::size_t>(layout_.group(output_).elements);
    return values[span_.value + i * width + output_.first_element + e];
  }
  double got(std::size_t i, std::size_t e) const { return got_[i * row_size() + e]; }
  std::int64_t flat(std::size_t i, std::size_t e) const {
    return layout_.base(output_, rows_[i]) + output_.element_offsets[e];
  }

  // Decodes only the compared rows: a timed run's output may be a thousand times larger than its sample.
  void decode_rows(std::span<const std::byte> bytes) {
    const std::size_t width = size_of(output_.dtype);
    const bool contiguous = output_.element_offsets.back() == static_cast<std::int64_t>(row_size()) - 1;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const std::span<double> row = std::span(got_).subspan(i * row_size(), row_size());
      if (contiguous) {
        decode(output_.dtype, bytes.subspan(static_cast<std::size_t>(flat(i, 0)) * width, row_size() * width),
               row);
        continue;
      }
      for (std::size_t e = 0; e < row_size(); ++e)
        decode(output_.dtype, bytes.subspan(static_cast<std::size_t>(flat(i, e)) * width, width),
               row.subspan(e, 1));
    }
  }

  Errors errors_of(std::size_t block, const std::vector<double>* rounded) const {
    Errors errors;
    for (std::size_t i = starts_[block]; i < starts_[block + 1]; ++i) {
      for (std::size_t e = 0; e < row_size(); ++e) {
        const double value = rounded == nullptr ? got(i, e) : of(*rounded, i, e);
        errors.add(value, want(i, e));
      }
    }
    return errors;
  }

  double ratio(const Errors& errors, const Errors& legal, const LegalError& at_least,
               double* allowed_max) const {
    // Each norm has its own floor, scaled by that norm: if one element dominates, its last bits do too.
    const double least = tolerance_.floor_eps * accumulation_epsilon(output_.dtype);
    // Rounding the output to its type costs up to half a unit in the last place, even if the few modeled
    // elements happened to need less.
    const double last_place = 0.5 * epsilon_of(output_.dtype) * errors.reference_max;
    *allowed_max =
        tolerance_.factor * std::max({legal.max, at_least.max, last_place}) + least * errors.reference_max;
    if (errors.wrong_non_finite > 0) return kInfinity;
    return std::max(ratio_of(errors.max, *allowed_max),
                    ratio_of(errors.rms(), tolerance_.factor * std::max(legal.rms(), at_least.rms) +
                                               least * errors.reference_rms()));
  }

  std::string element_line(std::string_view which, std::size_t i, std::size_t e, double allowed) const;

  const Tolerance& tolerance_;
  const RowLayout& layout_;
  const OutputLayout& output_;
  RowSpan span_;
  std::span<const std::int64_t> rows_;  // those of this output
  std::span<const double> exact_;
  std::vector<double> got_;          // the compared rows, consecutively
  std::vector<std::size_t> starts_;  // start of each block in rows_, and the end as last entry
  std::vector<double> ratios_, allowed_max_;
  double whole_ = 0.0;
  std::int64_t block_rows_ = 1;
  std::int64_t wrong_non_finite_ = 0;
};

std::string OutputCheck::element_line(std::string_view which, std::size_t i, std::size_t e,
                                      double allowed) const {
  const double value = got(i, e);
  const double error = std::abs(value - want(i, e));
  std::string line = fmt::format("{}: {} got {:.9g}, expected {:.9g}", which,
                                 layout_.describe(output_, flat(i, e)), value, want(i, e));
  if (std::isfinite(error)) line += fmt::format(" (error {:.3g}, allowed {:.3g})", error, allowed);
  return line + "\n";
}

// What the wrong elements have in common, as far as it is cheap to determine.
struct Pattern {
  std::vector<std::int64_t> low, high;  // ranges of the row coordinates
  std::int64_t first_element = std::numeric_limits<std::int64_t>::max(), last_element = -1;
  std::int64_t wrong = 0, zeros = 0, nans = 0, infinities = 0;
  double least_factor = kInfinity, greatest_factor = -kInfinity;

  void add(const std::vector<std::int64_t>& at, std::int64_t element, double got, double want) {
    if (low.empty()) low = high = at;
    for (std::size_t d = 0; d < at.size(); ++d) {
      low[d] = std::min(low[d], at[d]);
      high[d] = std::max(high[d], at[d]);
    }
    first_element = std::min(first_element, element);
    last_element = std::max(last_element, element);
    ++wrong;
    zeros += got == 0.0;
    nans += std::isnan(got);
    infinities += std::isinf(got);
    const double factor = want == 0.0 ? std::nan("") : got / want;
    least_factor = std::min(least_factor, std::isfinite(factor) ? factor : -kInfinity);
    greatest_factor = std::max(greatest_factor, std::isfinite(factor) ? factor : kInfinity);
  }

  std::string describe(const RowGroup& group, std::int64_t row_size) const {
    std::string text;
    for (std::size_t d = 0; d < low.size(); ++d) {
      const std::int64_t extent = group.shape[d];
      if (extent <= 1 || (low[d] == 0 && high[d] == extent - 1)) continue;
      text +=
          fmt::format("all wrong rows have {} {}..{} (of 0..{}{})\n", group.names[d], low[d], high[d],
                      extent - 1, high[d] == extent - 1 ? ": they reach the end, as the last tile does" : "");
    }
    if (row_size > 1 && (first_element > 0 || last_element < row_size - 1))
      text += fmt::format("within a row, only elements {}..{} of 0..{} are wrong\n", first_element,
                          last_element, row_size - 1);
    if (zeros == wrong) text += "every wrong element is 0\n";
    if (nans == wrong)
      text += "every wrong element is NaN\n";
    else if (nans > 0)
      text += fmt::format("{} of the wrong elements are NaN\n", nans);
    if (infinities > 0) text += fmt::format("{} of the wrong elements are infinite\n", infinities);
    if (wrong > 4 && zeros < wrong && std::isfinite(least_factor) && std::isfinite(greatest_factor) &&
        greatest_factor - least_factor < 1e-3 * std::abs(greatest_factor))
      text += fmt::format("every wrong element is {:.6g} x the expected value\n",
                          (least_factor + greatest_factor) / 2);
    return text;
  }
};

std::string OutputCheck::diagnostics() const {
  Pattern pattern;
  std::size_t first_i = 0, first_e = 0, worst_i = 0, worst_e = 0, worst_block = 0, first_block = 0;
  double worst = -1.0;
  for (std::size_t b = 0; b < blocks(); ++b) {
    if (ratios_[b] <= 1.0) continue;
    for (std::size_t i = starts_[b]; i < starts_[b + 1]; ++i) {
      for (std::size_t e = 0; e < row_size(); ++e) {
        const double value = got(i, e), expected = want(i, e);
        const bool finite = std::isfinite(value) && std::isfinite(expected);
        if (finite ? std::abs(value - expected) <= allowed_max_[b] : same_non_finite(value, expected))
          continue;
        const double badness = finite ? ratio_of(std::abs(value - expected), allowed_max_[b]) : kInfinity;
        if (pattern.wrong == 0) first_i = i, first_e = e, first_block = b;
        if (badness > worst) worst = badness, worst_i = i, worst_e = e, worst_block = b;
        pattern.add(layout_.coordinates(rows_[i]), static_cast<std::int64_t>(e), value, expected);
      }
    }
  }
  if (pattern.wrong == 0)
    return fmt::format(
        "{}: the RMS error is too large ({:.3g} x the allowed error) although no single element is far off: "
        "precision is lost everywhere, as with a low-precision type or a coarse approximation\n",
        output_.name, std::max(whole_, *std::max_element(ratios_.begin(), ratios_.end())));
  std::string text = fmt::format(
      "{}: {} of {} compared elements are wrong; allowed error = {:g} x permitted rounding error + {:g} "
      "eps({}) x the largest\n",
      output_.name, pattern.wrong, rows_.size() * row_size(), tolerance_.factor, tolerance_.floor_eps,
      size_of(output_.dtype) == 8 ? "f64" : "f32");
  text += element_line("first wrong element", first_i, first_e, allowed_max_[first_block]);
  if (worst_i != first_i || worst_e != first_e)
    text += element_line("worst element", worst_i, worst_e, allowed_max_[worst_block]);
  if (wrong_non_finite_ > 0)
    text += fmt::format("{} elements are NaN or infinite where the oracle is finite, or vice versa\n",
                        wrong_non_finite_);
  return text + pattern.describe(layout_.group(output_), static_cast<std::int64_t>(row_size()));
}

}  // namespace

Comparison compare(const Task& task, const RowLayout& layout, std::span<const std::vector<std::byte>> outputs,
                   const ExpectedRows& expected) {
  Comparison result;
  std::vector<double> rounded;
  std::vector<LegalError> wider, similar;
  bool asked = false;
  for (std::size_t t = 0; t < layout.outputs().size(); ++t) {
    const OutputLayout& output = layout.outputs()[t];
    OutputCheck check(task, layout, output, outputs[t], expected);
    double worst = check.judge(nullptr);
    if (worst > 1.0 && expected.wider) {
      if (wider.empty()) wider = expected.wider();
      worst = check.judge(nullptr, wider[t]);
    }
    if (worst > 1.0 && expected.rounded) {
      if (!asked) rounded = expected.rounded();
      asked = true;
      worst = check.judge(&rounded, wider.empty() ? LegalError{} : wider[t]);
    }
    if (worst > 1.0 && expected.similar) {
      if (similar.empty()) similar = expected.similar();
      worst = check.judge(asked ? &rounded : nullptr, similar[t]);
    }
    result.worst_ratio = std::max(result.worst_ratio, worst);
    if (worst <= 1.0) continue;
    if (result.right) result.reason = check.reason();
    result.right = false;
    result.diagnostics += check.diagnostics();
  }
  return result;
}

std::vector<LegalError> legal_errors(const RowLayout& layout, std::span<const std::int64_t> rows,
                                     std::span<const double> exact, std::span<const double> rounded) {
  std::vector<LegalError> legal;
  for (const OutputLayout& output : layout.outputs()) {
    const RowSpan span = layout.span_of(output, rows);
    const auto width = static_cast<std::size_t>(layout.group(output).elements);
    Errors errors;
    for (std::size_t i = 0; i < span.last - span.first; ++i)
      for (std::size_t e = 0; e < output.element_offsets.size(); ++e) {
        const std::size_t at = span.value + i * width + output.first_element + e;
        errors.add(rounded[at], exact[at]);
      }
    legal.push_back({errors.max, errors.rms()});
  }
  return legal;
}

bool too_many_unwritten(const RowLayout& layout, std::size_t unwritten) {
  double chance = 0.0;
  for (const OutputLayout& output : layout.outputs())
    chance +=
        static_cast<double>(output.elements) * std::exp2(-8.0 * static_cast<double>(size_of(output.dtype)));
  return static_cast<double>(unwritten) > 1.0 + chance + 6.0 * std::sqrt(chance);
}

std::string describe_unwritten(const RowLayout& layout, std::size_t unwritten) {
  return fmt::format(
      "{} of {} output elements were never written: they still hold the random pattern stored "
      "before the run. Write every element of every output in every run.\n",
      unwritten, layout.output_elements());
}

}  // namespace cultivar
