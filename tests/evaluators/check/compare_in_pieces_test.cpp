// SPDX-License-Identifier: Apache-2.0
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <numeric>

#include "evaluators/check/compare.hpp"

using namespace cultivar;

namespace {

// Two groups of rows: those of dx, and those of dw, which are behind them.
struct Bed {
  Task task = load_task(std::string(CULTIVAR_SOURCE_DIR) + "/configs/tasks/rmsnorm_backward");
  Workload workload;
  std::optional<RowLayout> layout;
  std::vector<std::int64_t> rows;
  std::vector<double> exact, rounded, got;  // by row
  mutable int exact_calls = 0, rounded_calls = 0;

  explicit Bed(Dtype dtype = Dtype::f32) {
    workload.dtype = dtype;
    workload.values = {{"R", 200}, {"C", 37}};
    layout.emplace(task, workload);
    for (std::int64_t row = 0; row < layout->rows(); ++row)
      if (row % 5 != 3) rows.push_back(row);
    for (std::size_t i = 0; i < layout->values_of(rows); ++i) {
      exact.push_back(std::sin(0.7 * static_cast<double>(i)));
      const double off = 1e-3 * std::cos(1.3 * static_cast<double>(i));
      rounded.push_back(exact.back() + off);
      got.push_back(exact.back() + 1.5 * off);
    }
  }
  std::vector<std::vector<std::byte>> outputs() const {
    std::vector<std::vector<std::byte>> bytes;
    for (const OutputLayout& output : layout->outputs()) {
      const std::size_t width = size_of(output.dtype);
      bytes.emplace_back(static_cast<std::size_t>(output.elements) * width);
      const RowSpan span = layout->span_of(output, rows);
      const auto size = static_cast<std::size_t>(layout->group(output).elements);
      for (std::size_t i = span.first; i < span.last; ++i)
        for (std::size_t e = 0; e < output.element_offsets.size(); ++e)
          encode(output.dtype,
                 std::span(got).subspan(span.value + (i - span.first) * size + output.first_element + e, 1),
                 std::span(bytes.back())
                     .subspan(
                         static_cast<std::size_t>(layout->base(output, rows[i]) + output.element_offsets[e]) *
                             width,
                         width));
    }
    return bytes;
  }
  RowsInPieces::Compute of(const std::vector<double>& values, int& calls) const {
    return [this, &values, &calls](std::span<const std::int64_t> some, std::span<double> out) {
      ++calls;
      const auto first = static_cast<std::size_t>(std::ranges::find(rows, some.front()) - rows.begin());
      const std::size_t begin = layout->values_of(std::span(rows).first(first));
      std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(begin), out.size(), out.begin());
    };
  }
  // Outputs off by `factor` times what the model is off, and a model that is off by so much on similar
  // inputs, in rows before `end`.
  void scale(double factor) {
    for (std::size_t i = 0; i < got.size(); ++i) got[i] = exact[i] + factor * (rounded[i] - exact[i]);
  }
  RowsInPieces::Similar similar(double factor, std::int64_t end = 1'000) const {
    return {of(exact, exact_calls),
            [this, factor, end](std::span<const std::int64_t> some, std::span<double> out) {
              of(rounded, rounded_calls)(some, out);
              std::vector<double> right(out.size());
              of(exact, exact_calls)(some, right);
              const auto scaled = layout->values_of(some.first(static_cast<std::size_t>(
                  std::ranges::count_if(some, [&](std::int64_t row) { return row < end; }))));
              for (std::size_t i = 0; i < out.size(); ++i)
                out[i] = right[i] + (i < scaled ? factor : 1.0) * (out[i] - right[i]);
            }};
  }
  // Both ways.
  std::pair<Comparison, Comparison> judged(std::size_t elements, bool model = true,
                                           std::vector<LegalError> wider = {}) const {
    ExpectedRows whole{rows, exact, {}};
    RowsInPieces pieces{rows, of(exact, exact_calls), {}};
    pieces.elements = elements;
    if (model) whole.rounded = [this] { return rounded; };
    if (model) pieces.rounded = of(rounded, rounded_calls);
    if (!wider.empty()) whole.wider = pieces.wider = [wider] { return wider; };
    const auto bytes = outputs();
    return {cultivar::compare(task, *layout, bytes, whole),
            cultivar::compare_in_pieces(task, *layout, bytes, pieces)};
  }
};

constexpr std::size_t kSizes[] = {1, 37, 100, 1'000, 7'000, 1'000'000};

void check_same(const std::pair<Comparison, Comparison>& both) {
  BOOST_TEST(both.first.right == both.second.right);
  BOOST_TEST(both.first.worst_ratio == both.second.worst_ratio);
  BOOST_TEST(both.first.reason == both.second.reason);
  BOOST_TEST(both.first.diagnostics == both.second.diagnostics);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(compare_in_pieces)

BOOST_AUTO_TEST_CASE(whether_an_output_is_right_does_not_depend_on_the_size_of_the_pieces) {
  for (const std::size_t elements : kSizes) {
    const auto both = Bed().judged(elements);
    BOOST_TEST(both.first.right, both.first.diagnostics);
    check_same(both);
  }
}

BOOST_AUTO_TEST_CASE(an_error_in_any_piece_is_found_and_described_as_without_pieces) {
  const std::size_t values = Bed().exact.size();
  for (const std::size_t at : {std::size_t{0}, values / 2, values - 30, values - 1})
    for (const std::size_t elements : kSizes) {
      Bed bed;
      bed.got[at] += 0.25;
      const auto both = bed.judged(elements);
      BOOST_TEST(!both.second.right);
      check_same(both);
      bed.got[at] = std::nan("");
      check_same(bed.judged(elements));
      BOOST_TEST(!bed.judged(elements).second.right);
    }
}

BOOST_AUTO_TEST_CASE(a_last_block_of_few_rows_and_the_floor_are_judged_as_without_pieces) {
  for (const std::size_t elements : kSizes) {
    Bed bed;
    for (std::size_t i = 0; i < bed.got.size(); ++i) bed.got[i] = bed.exact[i] * (1 + 4e-7 * (i % 3 == 0));
    bed.rounded = bed.exact;
    check_same(bed.judged(elements, false));
    BOOST_TEST(bed.judged(elements, false).second.right);
  }
}

BOOST_AUTO_TEST_CASE(the_model_is_asked_only_if_an_error_exceeds_what_is_known_to_be_permitted) {
  Bed bed;
  check_same(bed.judged(1'000, true, {{3e-3, 2e-3}, {3e-3, 2e-3}}));
  BOOST_TEST(bed.rounded_calls == 0);
  check_same(bed.judged(1'000, true, {{1e-4, 1e-4}, {1e-4, 1e-4}}));
  BOOST_TEST(bed.rounded_calls > 0);
}

BOOST_AUTO_TEST_CASE(pieces_before_the_first_that_needs_the_model_are_modeled_when_the_whole_needs_it) {
  Bed bed;
  // The first rows are exact, the others off by half of what is permitted: the whole exceeds the floor.
  for (std::size_t i = 0; i < 3'000; ++i) bed.got[i] = bed.rounded[i] = bed.exact[i];
  for (const std::size_t elements : kSizes) check_same(bed.judged(elements));
  BOOST_TEST(bed.judged(100).second.right);
}

BOOST_AUTO_TEST_CASE(each_block_is_permitted_its_own_error_on_similar_inputs) {
  for (const std::size_t elements : kSizes)
    for (const std::int64_t end : {0, 64, 1'000}) {
      Bed bed;
      bed.scale(5);
      RowsInPieces expected{bed.rows, bed.of(bed.exact, bed.exact_calls),
                            bed.of(bed.rounded, bed.rounded_calls)};
      expected.elements = elements;
      expected.similar = [&] { return std::optional(bed.similar(5, end)); };
      const auto told = cultivar::compare_in_pieces(bed.task, *bed.layout, bed.outputs(), expected);
      BOOST_TEST(told.right == (end == 1'000));
      if (end == 64) BOOST_TEST(told.reason == "dx differs from the oracle in 2 of 3 blocks of 64 rows");
    }
}

BOOST_AUTO_TEST_CASE(similar_inputs_are_asked_until_the_output_is_right_or_too_far_off_for_chance) {
  // By how much each error exceeds the model's, the inputs at hand, and how many are asked for.
  struct Case {
    double factor;
    int at_hand, asked;
    bool right;
  };
  for (const Case& each : {Case{1.5, 9, 0, true}, Case{5, 9, 3, true}, Case{5, 2, 3, false},
                           Case{50, 99, 7, false}, Case{20, 99, 13, false}, Case{1e6, 99, 7, false}}) {
    Bed bed;
    bed.scale(each.factor);
    RowsInPieces expected{bed.rows, bed.of(bed.exact, bed.exact_calls),
                          bed.of(bed.rounded, bed.rounded_calls)};
    int asked = 0;
    expected.similar = [&]() -> std::optional<RowsInPieces::Similar> {
      if (++asked > each.at_hand) return std::nullopt;
      return bed.similar(asked == 3 && each.factor < 9 ? 5 : 0.1);
    };
    const auto told = cultivar::compare_in_pieces(bed.task, *bed.layout, bed.outputs(), expected);
    BOOST_TEST(told.right == each.right, "factor " << each.factor);
    BOOST_TEST(asked == each.asked, "factor " << each.factor << ": " << asked << " asked");
  }
}

BOOST_AUTO_TEST_SUITE_END()
