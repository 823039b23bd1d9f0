// SPDX-License-Identifier: Apache-2.0
#include "evaluators/check/compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "evaluators/check/error_sums.hpp"

namespace cultivar {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The compared rows of one output tensor, with the oracle's rows.
class OutputCheck {
 public:
  // `least`: the place of this output's in `expected`.
  OutputCheck(const Task& task, const RowLayout& layout, const OutputLayout& output,
              std::span<const std::byte> bytes, const ExpectedRows& expected, std::size_t least = 0)
      : tolerance_(task.tolerance),
        layout_(layout),
        output_(output),
        span_(layout.span_of(output, expected.rows)),
        rows_(expected.rows.subspan(span_.first, span_.last - span_.first)),
        exact_(expected.exact),
        read_(layout, output, bytes),
        block_rows_(
            std::max<std::int64_t>(1, expected.block_rows > 0 ? expected.block_rows : tolerance_.block_rows)),
        starts_(block_starts(layout.group(output), rows_, block_rows_)) {
    if (least < expected.least.size()) least_ = expected.least[least];
    least_.blocks.resize(blocks());
  }

  // Computes the error ratios. `rounded` may be null if no error exceeds the floor.
  double judge(const std::vector<double>* rounded, const LegalError& at_least = {}) {
    ratios_.assign(blocks(), 0.0);
    allowed_max_.assign(blocks(), 0.0);
    ErrorSums all, all_rounded;
    if (errors_.empty()) errors_ = errors_of_blocks(nullptr);
    const std::vector<ErrorSums> of_rounded =
        rounded == nullptr ? std::vector<ErrorSums>(blocks()) : errors_of_blocks(rounded);
    for (std::size_t b = 0; b < blocks(); ++b) {
      const ErrorSums &errors = errors_[b], &legal = of_rounded[b];
      all.add(errors);
      all_rounded.add(legal);
      ratios_[b] = ratio(errors, legal, greater(at_least, least_.blocks[b]), &allowed_max_[b]);
    }
    double ignored = 0.0;
    whole_ = ratio(all, all_rounded, greater(at_least, least_.whole), &ignored);
    wrong_non_finite_ = all.wrong_non_finite;
    return std::max(whole_, ratios_.empty() ? 0.0 : *std::max_element(ratios_.begin(), ratios_.end()));
  }

  OutputErrors errors(const std::vector<double>& rounded) const {
    ErrorSums all, legal;
    for (const ErrorSums& each : errors_of_blocks(nullptr)) all.add(each);
    for (const ErrorSums& each : errors_of_blocks(&rounded)) legal.add(each);
    // Rounding to the nearest value is off by up to half a unit in the last place, and by a quarter in the
    // mean.
    const double unit = epsilon_of(output_.dtype);
    const double least = tolerance_.floor_eps * accumulation_epsilon(output_.dtype);
    OutputErrors told{{all.max, all.rms()},
                      {std::max(legal.max, 0.5 * unit * all.reference_max),
                       std::max(legal.rms(), 0.25 * unit * all.reference_rms())},
                      {least * all.reference_max, least * all.reference_rms()}};
    if (!is_floating(output_.dtype)) {
      told.wrong = all.wrong_non_finite, told.integers = all.count;
      told.error = told.floor = {};
    } else if (all.wrong_non_finite > 0) {
      told.error = {kInfinity, kInfinity};
    }
    for (double* part : {&told.legal.max, &told.legal.rms})  // all exact values are zero
      *part = std::max(*part, std::numeric_limits<double>::min());
    return told;
  }

  std::string reason() const {
    if (!is_floating(output_.dtype))
      return fmt::format("{} has {} wrong of {} compared whole numbers", output_.name, wrong_non_finite_,
                         rows_.size() * row_size());
    const std::int64_t bad = std::count_if(ratios_.begin(), ratios_.end(), [](double r) { return r > 1.0; });
    if (bad == 0)
      return fmt::format("{} differs from the oracle by {:.3g} x the allowed error", output_.name, whole_);
    if (blocks() == 1) return fmt::format("{} differs from the oracle", output_.name);
    return fmt::format("{} differs from the oracle in {} of {} blocks of {} rows", output_.name, bad,
                       blocks(), block_rows_);
  }

  // `wrong_rows` receives the first rows with wrong elements.
  std::string diagnostics(std::vector<std::int64_t>& wrong_rows) const;

 private:
  std::size_t blocks() const { return starts_.size() - 1; }
  std::size_t row_size() const { return output_.element_offsets.size(); }
  double want(std::size_t i, std::size_t e) const { return exact_[place(i, e)]; }
  // Of a compared element in the oracle's values.
  std::size_t place(std::size_t i, std::size_t e) const {
    const auto width = static_cast<std::size_t>(layout_.group(output_).elements);
    return span_.value + i * width + output_.first_element + e;
  }
  double got(std::size_t i, std::size_t e) const { return read_.element(rows_[i], e); }
  bool right(double got, double want, double allowed) const {
    if (!is_floating(output_.dtype)) return got == want || got == round_to(output_.dtype, want);
    return std::isfinite(got) && std::isfinite(want)
               ? std::abs(got - want) <= allowed
               : same_non_finite(got, want) || right_overflow(got, want, overflow_of(output_.dtype));
  }

  // Of the output, or of the rounding model.
  std::vector<ErrorSums> errors_of_blocks(const std::vector<double>* rounded) const {
    std::vector<ErrorSums> of_rows(rows_.size()), of_blocks(blocks());
    for_each_row(rows_.size(), rows_.size() * row_size(), [&](std::size_t i) {
      const std::span<const double> exact = exact_.subspan(place(i, 0), row_size());
      if (rounded == nullptr)
        of_rows[i] = read_.errors(rows_[i], exact);
      else
        of_rows[i].add(std::span(*rounded).subspan(place(i, 0), row_size()), exact);
    });
    for (std::size_t b = 0; b < blocks(); ++b)
      for (std::size_t i = starts_[b]; i < starts_[b + 1]; ++i) of_blocks[b].add(of_rows[i]);
    return of_blocks;
  }

  double ratio(const ErrorSums& errors, const ErrorSums& legal, const LegalError& at_least,
               double* allowed_max) const {
    return error_ratio(tolerance_, output_.dtype, errors, legal, at_least, allowed_max);
  }

  std::string element_line(std::string_view which, std::size_t i, std::size_t e, double allowed) const;

  const Tolerance& tolerance_;
  const RowLayout& layout_;
  const OutputLayout& output_;
  RowSpan span_;
  std::span<const std::int64_t> rows_;  // those of this output
  std::span<const double> exact_;
  OutputRows read_;
  std::int64_t block_rows_;
  std::vector<std::size_t> starts_;  // of each block in rows_, and the end
  std::vector<ErrorSums> errors_;    // by block, once known
  BlockErrors least_;
  std::vector<double> ratios_, allowed_max_;
  double whole_ = 0.0;
  std::int64_t wrong_non_finite_ = 0;
};

std::string OutputCheck::element_line(std::string_view which, std::size_t i, std::size_t e,
                                      double allowed) const {
  const double value = got(i, e);
  const double error = std::abs(value - want(i, e));
  const std::string place = layout_.describe(output_, read_.place(rows_[i], e));
  if (!is_floating(output_.dtype))
    return fmt::format("{}: {} got {:.17g}, expected {:.17g}\n", which, place, value, want(i, e));
  std::string line = fmt::format("{}: {} got {:.9g}, expected {:.9g}", which, place, value, want(i, e));
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

std::string OutputCheck::diagnostics(std::vector<std::int64_t>& wrong_rows) const {
  constexpr std::size_t kRows = 32;
  const std::size_t before = wrong_rows.size();
  Pattern pattern;
  std::size_t first_i = 0, first_e = 0, worst_i = 0, worst_e = 0, worst_block = 0, first_block = 0;
  double worst = -1.0;
  for (std::size_t b = 0; b < blocks(); ++b) {
    if (ratios_[b] <= 1.0) continue;
    for (std::size_t i = starts_[b]; i < starts_[b + 1]; ++i) {
      for (std::size_t e = 0; e < row_size(); ++e) {
        const double value = got(i, e), expected = want(i, e);
        const bool finite = std::isfinite(value) && std::isfinite(expected);
        if (right(value, expected, allowed_max_[b])) continue;
        const double badness = finite ? ratio_of(std::abs(value - expected), allowed_max_[b]) : kInfinity;
        if (pattern.wrong == 0) first_i = i, first_e = e, first_block = b;
        if (wrong_rows.size() < before + kRows &&
            (wrong_rows.size() == before || wrong_rows.back() != rows_[i]))
          wrong_rows.push_back(rows_[i]);
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
  std::string text = fmt::format("{}: {} of {} compared elements are wrong; ", output_.name, pattern.wrong,
                                 rows_.size() * row_size());
  if (is_floating(output_.dtype))
    text += fmt::format("allowed error = {:g} x permitted rounding error + {:g} eps({}) x the largest\n",
                        tolerance_.factor, tolerance_.floor_eps, size_of(output_.dtype) == 8 ? "f64" : "f32");
  else
    text +=
        "whole numbers must be the oracle's, or right by is_right_index of the reference, if it defines "
        "that\n";
  text += element_line("first wrong element", first_i, first_e, allowed_max_[first_block]);
  if (worst_i != first_i || worst_e != first_e)
    text += element_line("worst element", worst_i, worst_e, allowed_max_[worst_block]);
  if (wrong_non_finite_ > 0 && is_floating(output_.dtype))
    text += fmt::format("{} elements are NaN or infinite where the oracle is finite, or vice versa\n",
                        wrong_non_finite_);
  return text + pattern.describe(layout_.group(output_), static_cast<std::int64_t>(row_size()));
}

struct Difference {
  double max = 0.0, rms = 0.0, largest = 0.0;  // `largest`: the greatest magnitude of the first run
  std::int64_t worst = 0;
};

Difference difference_of(Dtype dtype, std::span<const std::byte> first, std::span<const std::byte> second) {
  std::vector<double> a(first.size() / size_of(dtype)), b(a.size());
  decode(dtype, first, a);
  decode(dtype, second, b);
  Difference found;
  double squares = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isfinite(a[i])) found.largest = std::max(found.largest, std::abs(a[i]));
    double difference = std::abs(a[i] - b[i]);
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) difference = 0.0;
    if (!std::isfinite(difference)) difference = std::numeric_limits<double>::infinity();
    squares += difference * difference;
    if (difference > found.max) found.max = difference, found.worst = static_cast<std::int64_t>(i);
  }
  found.rms = std::sqrt(squares / static_cast<double>(std::max<std::size_t>(1, a.size())));
  return found;
}

}  // namespace

Comparison compare(const Task& task, const RowLayout& layout, std::span<const std::vector<std::byte>> outputs,
                   const ExpectedRows& expected) {
  Comparison result;
  if (expected.right_indices.right && has_integers(layout)) {
    std::vector<double> exact(expected.exact.begin(), expected.exact.end());
    const ChangedRows changed =
        accept_right_indices(layout, outputs, expected.rows, exact, expected.right_indices);
    ExpectedRows decided = expected;
    decided.exact = exact;
    decided.right_indices = {};
    if (expected.rounded && !changed.rows.empty())
      decided.rounded = [&] {
        std::vector<double> rounded = expected.rounded();
        follow_indices(layout, changed, "rounded", exact, rounded, expected.right_indices);
        return rounded;
      };
    return compare(task, layout, outputs, decided);
  }
  std::vector<double> rounded;
  std::vector<LegalError> wider;
  bool asked = false;
  for (std::size_t t = 0; t < layout.outputs().size(); ++t) {
    const OutputLayout& output = layout.outputs()[t];
    OutputCheck check(task, layout, output, outputs[t], expected, t);
    double worst = check.judge(nullptr, wider.empty() ? LegalError{} : wider[t]);
    if (worst > 1.0 && expected.wider) {
      if (wider.empty()) wider = expected.wider();
      worst = check.judge(nullptr, wider[t]);
    }
    if (worst > 1.0 && expected.rounded) {
      if (!asked) rounded = expected.rounded();
      asked = true;
      worst = check.judge(&rounded, wider.empty() ? LegalError{} : wider[t]);
    }
    result.worst_ratio = std::max(result.worst_ratio, worst);
    if (worst <= 1.0) continue;
    if (result.right) result.reason = check.reason();
    result.right = false;
    result.diagnostics += check.diagnostics(result.wrong_rows);
  }
  std::ranges::sort(result.wrong_rows);
  result.wrong_rows.erase(std::unique(result.wrong_rows.begin(), result.wrong_rows.end()),
                          result.wrong_rows.end());
  return result;
}

std::vector<OutputErrors> output_errors(const Task& task, const RowLayout& layout,
                                        std::span<const std::vector<std::byte>> outputs,
                                        const ExpectedRows& expected, const std::vector<double>& rounded) {
  std::vector<OutputErrors> all;
  if (expected.right_indices.right && has_integers(layout)) {
    std::vector<double> exact(expected.exact.begin(), expected.exact.end()), of_roundings = rounded;
    const ChangedRows changed =
        accept_right_indices(layout, outputs, expected.rows, exact, expected.right_indices);
    follow_indices(layout, changed, "rounded", exact, of_roundings, expected.right_indices);
    ExpectedRows decided = expected;
    decided.exact = exact;
    decided.right_indices = {};
    return output_errors(task, layout, outputs, decided, of_roundings);
  }
  for (std::size_t t = 0; t < layout.outputs().size(); ++t)
    all.push_back(OutputCheck(task, layout, layout.outputs()[t], outputs[t], expected).errors(rounded));
  return all;
}

std::vector<LegalError> legal_errors(const RowLayout& layout, std::span<const std::int64_t> rows,
                                     std::span<const double> exact, std::span<const double> rounded) {
  std::vector<LegalError> legal;
  for (const OutputLayout& output : layout.outputs()) {
    const RowSpan span = layout.span_of(output, rows);
    const auto width = static_cast<std::size_t>(layout.group(output).elements);
    ErrorSums errors;
    for (std::size_t i = 0; i < span.last - span.first; ++i) {
      const std::size_t at = span.value + i * width + output.first_element;
      errors.add(rounded.subspan(at, output.element_offsets.size()),
                 exact.subspan(at, output.element_offsets.size()));
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
  constexpr std::int64_t kGroup = 8;  // bytes that a session counts as one, see Session
  std::int64_t all = 0;
  for (const OutputLayout& output : layout.outputs())
    all += output.elements * static_cast<std::int64_t>(size_of(output.dtype)) / kGroup;
  const bool nothing = static_cast<std::int64_t>(unwritten) >= all;
  return fmt::format(
      "{} were never written: they still hold the random pattern stored before the run. Write every element "
      "of every output in every run.\n",
      nothing ? "The outputs"
              : fmt::format("{} of the outputs' {} groups of {} bytes", unwritten, all, kGroup));
}

std::string run_to_run_differences(const Task& task, const RowLayout& layout,
                                   std::span<const std::vector<std::byte>> first,
                                   std::span<const std::vector<std::byte>> second,
                                   const std::function<std::vector<LegalError>()>& legal) {
  std::string text;
  std::vector<LegalError> permitted;
  for (std::size_t t = 0; t < layout.outputs().size(); ++t) {
    const OutputLayout& output = layout.outputs()[t];
    if (first[t] == second[t]) continue;
    const double share = task.tensors[static_cast<std::size_t>(output.tensor)].run_to_run;
    if (share == 0.0) {
      const auto at = std::ranges::mismatch(first[t], second[t]).in1 - first[t].begin();
      text += fmt::format("the first element that differs is {}\n",
                          layout.describe(output, at / static_cast<std::ptrdiff_t>(size_of(output.dtype))));
      continue;
    }
    if (permitted.empty()) permitted = legal();
    const Difference found = difference_of(output.dtype, first[t], second[t]);
    const double floor = task.tolerance.floor_eps * accumulation_epsilon(output.dtype) * found.largest;
    // Any difference, however small, may change to which of two neighbors a result is rounded.
    const double last_place = epsilon_of(output.dtype) * found.largest;
    const double most = last_place + share * (task.tolerance.factor * permitted[t].max + floor);
    if (found.max <= most) continue;
    text += fmt::format(
        "{} differs by {:.3g}, and may differ by {:.3g} (one last place, and {:g} of the permitted error)\n",
        layout.describe(output, found.worst), found.max, most, share);
  }
  return text;
}

}  // namespace cultivar
