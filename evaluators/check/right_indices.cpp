// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "evaluators/check/error_sums.hpp"

namespace cultivar {
namespace {

constexpr std::size_t kBatch = std::size_t{1} << 14;  // answers for one call

// Differing answers of one output that await a decision, with copies of their rows.
class Pending {
 public:
  Pending(const OutputLayout& output, std::size_t row_size, const IndexRule& right)
      : output_(output), row_size_(row_size), right_(right) {}

  // A row's values; `exact` is where the oracle's are changed. False: an answer was wrong.
  bool add(std::int64_t row, const std::vector<double>& given, std::span<double> exact) {
    std::vector<std::size_t> places;
    for (std::size_t e = 0; e < row_size_; ++e)
      if (given[e] != exact[e] && given[e] != round_to(output_.dtype, exact[e])) places.push_back(e);
    if (places.empty()) return true;
    rows_.push_back({row, given, {exact.begin(), exact.end()}, exact.data(), std::move(places)});
    count_ += rows_.back().places.size();
    return count_ < kBatch || decide();
  }

  // Rows of which an answer was accepted.
  const std::set<std::int64_t>& changed() const { return changed_; }

  bool decide() {
    std::vector<IndexAnswer> answers;
    std::vector<double*> places;
    for (const Row& row : rows_)
      for (const std::size_t e : row.places) {
        answers.push_back({output_.name.c_str(), row.row, static_cast<std::int64_t>(e),
                           static_cast<std::int64_t>(row_size_), row.given.data(), row.wanted.data()});
        places.push_back(row.exact + e);
      }
    bool all = true;
    const std::vector<bool> verdicts = answers.empty() ? std::vector<bool>{} : right_.right(answers);
    for (std::size_t i = 0; i < answers.size(); ++i)
      if (verdicts[i]) {
        *places[i] = answers[i].value();
        changed_.insert(answers[i].row);
      } else {
        all = false;
      }
    rows_.clear();
    count_ = 0;
    return all;
  }

 private:
  struct Row {
    std::int64_t row = 0;
    std::vector<double> given, wanted;
    double* exact = nullptr;
    std::vector<std::size_t> places;
  };
  const OutputLayout& output_;
  std::size_t row_size_;
  const IndexRule& right_;
  std::vector<Row> rows_;
  std::set<std::int64_t> changed_;
  std::size_t count_ = 0;
};

}  // namespace

bool has_integers(const RowLayout& layout) {
  return std::ranges::any_of(layout.outputs(), [](const OutputLayout& o) { return !is_floating(o.dtype); });
}

ChangedRows accept_right_indices(const RowLayout& layout, std::span<const std::vector<std::byte>> outputs,
                                 std::span<const std::int64_t> rows, std::span<double> exact,
                                 const IndexRule& right) {
  if (!right.right) return {};
  std::set<std::int64_t> changed;
  bool all = true;
  for (std::size_t t = 0; all && t < layout.outputs().size(); ++t) {
    const OutputLayout& output = layout.outputs()[t];
    if (is_floating(output.dtype)) continue;
    const OutputRows read(layout, output, outputs[t]);
    const RowSpan span = layout.span_of(output, rows);
    const RowGroup& group = layout.group(output);
    Pending pending(output, read.row_size(), right);
    std::vector<double> given(read.row_size());
    for (std::size_t i = span.first; all && i < span.last; ++i) {
      const std::size_t at =
          span.value + (i - span.first) * static_cast<std::size_t>(group.elements) + output.first_element;
      for (std::size_t e = 0; e < given.size(); ++e) given[e] = read.element(rows[i], e);
      all = pending.add(rows[i] - group.first, given, exact.subspan(at, given.size()));
    }
    all = all && pending.decide();
    for (const std::int64_t row : pending.changed()) changed.insert(row + group.first);
  }
  if (!all || !right.follow || changed.empty()) return {};
  ChangedRows found;
  std::size_t value = 0;
  for (const std::int64_t row : rows) {
    if (changed.contains(row)) {
      found.rows.push_back(row);
      found.values.push_back(value);
    }
    value += static_cast<std::size_t>(layout.group_of(row).elements);
  }
  follow_indices(layout, found, "exact", exact, exact, right);
  return found;
}

void follow_indices(const RowLayout& layout, const ChangedRows& changed, RowFunction function,
                    std::span<const double> exact, std::span<double> values, const IndexRule& right) {
  if (changed.rows.empty()) return;
  std::vector<double> given;
  for (std::size_t i = 0; i < changed.rows.size(); ++i) {
    const auto row =
        exact.subspan(changed.values[i], static_cast<std::size_t>(layout.group_of(changed.rows[i]).elements));
    given.insert(given.end(), row.begin(), row.end());
  }
  const std::vector<double> followed = right.follow(function, changed.rows, given);
  std::size_t from = 0;
  for (std::size_t i = 0; i < changed.rows.size(); ++i) {
    const auto width = static_cast<std::size_t>(layout.group_of(changed.rows[i]).elements);
    std::copy_n(followed.begin() + static_cast<std::ptrdiff_t>(from), width,
                values.begin() + static_cast<std::ptrdiff_t>(changed.values[i]));
    from += width;
  }
}

}  // namespace cultivar
