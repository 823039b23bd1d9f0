// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <utility>

#include "evaluators/check/error_sums.hpp"

namespace cultivar {
namespace {

// Sets of inputs over which R is the greatest before an output is refused: all of the first number if its
// error is finite, then up to the second as long as it is no more than that over n times the allowed error
// after n sets.
constexpr int kFewestSimilar = 7;
constexpr double kMostSimilar = 128.0;

// The errors of the rows of one output.
class RowErrors {
 public:
  RowErrors(const Task& task, const RowLayout& layout, std::size_t output,
            std::span<const std::vector<std::byte>> outputs, std::span<const std::int64_t> rows)
      : tolerance_(task.tolerance),
        output_(layout.outputs()[output]),
        group_(layout.group(output_)),
        read_(layout, output_, outputs[output]),
        span_(layout.span_of(output_, rows)),
        rows_(rows.subspan(span_.first, span_.last - span_.first)),
        starts_(block_starts(group_, rows_, std::max<std::int64_t>(1, tolerance_.block_rows))),
        errors_(rows_.size()),
        legal_(rows_.size()),
        least_{{}, std::vector<LegalError>(starts_.size() - 1)} {}

  // `piece`: these rows of the list, with their values.
  void add(RowSpan piece, std::span<const double> exact) {
    each(piece, [&](std::size_t row, std::size_t value) {
      errors_[row] = read_.errors(rows_[row], exact.subspan(value, read_.row_size()));
    });
  }
  void add_legal(RowSpan piece, std::span<const double> exact, std::span<const double> rounded) {
    set_legal(legal_, piece, exact, rounded);
  }
  // The same of another set of inputs, a piece after the other.
  void add_similar(RowSpan piece, std::span<const double> exact, std::span<const double> rounded) {
    similar_.resize(rows_.size());
    set_legal(similar_, piece, exact, rounded);
  }
  // From here on, R is at least this set's.
  void raise() {
    if (rows_.empty()) return;
    const auto raise = [&](LegalError& to, std::size_t first, std::size_t last) {
      ErrorSums sums;
      for (std::size_t i = first; i < last; ++i) sums.add(similar_[i]);
      to = greater(to, {sums.max, sums.rms()});
    };
    raise(least_.whole, 0, rows_.size());
    for (std::size_t b = 0; b < least_.blocks.size(); ++b)
      raise(least_.blocks[b], starts_[b], starts_[b + 1]);
  }
  BlockErrors least(const LegalError& of_wider) const {
    BlockErrors least = least_;
    least.whole = greater(least.whole, of_wider);
    for (LegalError& block : least.blocks) block = greater(block, of_wider);
    return least;
  }

  // Errors relative to the allowed ones: of a piece, and of each block and the whole.
  double ratio(RowSpan piece, const LegalError& at_least) const {
    const auto [first, last] = own(piece);
    return ratio(first, last, at_least);
  }
  double ratio(const LegalError& at_least) const {
    double worst = ratio(0, rows_.size(), greater(at_least, least_.whole));
    for (std::size_t b = 0; b < least_.blocks.size(); ++b)
      worst = std::max(worst, ratio(starts_[b], starts_[b + 1], greater(at_least, least_.blocks[b])));
    return worst;
  }

 private:
  // The rows of a piece that are this output's.
  std::pair<std::size_t, std::size_t> own(RowSpan piece) const {
    const std::size_t first = std::clamp(piece.first, span_.first, span_.last) - span_.first;
    return {first, std::max(first, std::clamp(piece.last, span_.first, span_.last) - span_.first)};
  }
  template <class Use>
  void each(RowSpan piece, const Use& use) const {
    const auto [first, last] = own(piece);
    const auto width = static_cast<std::size_t>(group_.elements);
    const std::size_t begin = span_.value + first * width + output_.first_element - piece.value;
    for_each_row(last - first, (last - first) * read_.row_size(),
                 [&, from = first](std::size_t i) { use(from + i, begin + i * width); });
  }
  void set_legal(std::vector<ErrorSums>& of_rows, RowSpan piece, std::span<const double> exact,
                 std::span<const double> rounded) {
    each(piece, [&](std::size_t row, std::size_t value) {
      of_rows[row] = {};
      of_rows[row].add(rounded.subspan(value, read_.row_size()), exact.subspan(value, read_.row_size()));
    });
  }
  double ratio(std::size_t first, std::size_t last, const LegalError& at_least) const {
    ErrorSums errors, legal;
    for (std::size_t i = first; i < last; ++i) errors.add(errors_[i]), legal.add(legal_[i]);
    double ignored = 0.0;
    return error_ratio(tolerance_, output_.dtype, errors, legal, at_least, &ignored);
  }

  const Tolerance& tolerance_;
  const OutputLayout& output_;
  const RowGroup& group_;
  OutputRows read_;
  RowSpan span_;
  std::span<const std::int64_t> rows_;  // those of this output
  std::vector<std::size_t> starts_;     // of each block in rows_, and the end
  std::vector<ErrorSums> errors_, legal_, similar_;
  BlockErrors least_;
};

std::vector<RowSpan> pieces_of(const RowLayout& layout, std::span<const std::int64_t> rows,
                               std::size_t most) {
  std::vector<RowSpan> pieces;
  std::size_t value = 0, elements = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (pieces.empty() || elements >= most) {
      pieces.push_back({i, i, value});
      elements = 0;
    }
    const auto row = static_cast<std::size_t>(layout.group_of(rows[i]).elements);
    value += row, elements += row;
    pieces.back().last = i + 1;
  }
  return pieces;
}

// The same rows with all their values at once, which the description of an error needs.
Comparison compare_whole(const Task& task, const RowLayout& layout,
                         std::span<const std::vector<std::byte>> outputs, const RowsInPieces& expected,
                         std::vector<BlockErrors> least) {
  std::vector<double> exact(layout.values_of(expected.rows));
  expected.exact(expected.rows, exact);
  ExpectedRows whole{expected.rows, exact, {}};
  if (expected.rounded)
    whole.rounded = [&] {
      std::vector<double> rounded(exact.size());
      expected.rounded(expected.rows, rounded);
      return rounded;
    };
  whole.least = std::move(least);
  whole.right_indices = expected.right_indices;
  return compare(task, layout, outputs, whole);
}

}  // namespace

Comparison compare_in_pieces(const Task& task, const RowLayout& layout,
                             std::span<const std::vector<std::byte>> outputs, const RowsInPieces& expected) {
  std::vector<RowErrors> checks;
  for (std::size_t t = 0; t < layout.outputs().size(); ++t)
    checks.emplace_back(task, layout, t, outputs, expected.rows);
  std::vector<LegalError> wider(checks.size());  // R of more rows, by output
  const auto worst = [&](auto... piece) {
    double most = 0.0;
    for (std::size_t t = 0; t < checks.size(); ++t)
      most = std::max(most, checks[t].ratio(piece..., wider[t]));
    return most;
  };

  const std::vector<RowSpan> pieces = pieces_of(layout, expected.rows, expected.elements);
  std::vector<double> exact, rounded;
  bool modeling = false, widened = false;
  const auto compute = [&](const RowsInPieces::Compute& of, RowSpan piece, std::vector<double>& values) {
    const auto rows = expected.rows.subspan(piece.first, piece.last - piece.first);
    values.resize(layout.values_of(rows));
    of(rows, values);
  };
  ChangedRows changed;  // of the piece
  const auto compute_exact = [&](RowSpan piece) {
    compute(expected.exact, piece, exact);
    changed =
        accept_right_indices(layout, outputs, expected.rows.subspan(piece.first, piece.last - piece.first),
                             exact, expected.right_indices);
  };
  const auto model = [&](RowSpan piece) {
    compute(expected.rounded, piece, rounded);
    follow_indices(layout, changed, "rounded", exact, rounded, expected.right_indices);
    for (RowErrors& check : checks) check.add_legal(piece, exact, rounded);
  };
  std::size_t unmodeled = 0;  // pieces before the first one that needed the model
  for (const RowSpan& piece : pieces) {
    compute_exact(piece);
    for (RowErrors& check : checks) check.add(piece, exact);
    if (!modeling && worst(piece) > 1.0) {
      if (expected.wider && !std::exchange(widened, true)) wider = expected.wider();
      modeling = expected.rounded && worst(piece) > 1.0;
    }
    if (modeling)
      model(piece);
    else
      ++unmodeled;
  }
  double most = worst();
  if (most > 1.0 && expected.rounded && unmodeled > 0) {
    for (const RowSpan& piece : std::span(pieces).first(unmodeled)) {
      compute_exact(piece);
      model(piece);
    }
    most = worst();
  }
  const auto may_be_chance = [&](int n) {
    return most > 1.0 && std::isfinite(most) && (n < kFewestSimilar || most * n < kMostSimilar);
  };
  for (int n = 0; expected.similar && may_be_chance(n); ++n) {
    const auto inputs = expected.similar();
    if (!inputs) break;
    for (const RowSpan& piece : pieces) {
      compute(inputs->exact, piece, exact);
      compute(inputs->rounded, piece, rounded);
      for (RowErrors& check : checks) check.add_similar(piece, exact, rounded);
    }
    for (RowErrors& check : checks) check.raise();
    most = worst();
  }
  if (most > 1.0) {
    std::vector<BlockErrors> least;
    for (std::size_t t = 0; t < checks.size(); ++t) least.push_back(checks[t].least(wider[t]));
    return compare_whole(task, layout, outputs, expected, std::move(least));
  }
  Comparison right;
  right.worst_ratio = most;
  return right;
}

}  // namespace cultivar
