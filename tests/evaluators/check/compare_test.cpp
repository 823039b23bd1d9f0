// SPDX-License-Identifier: Apache-2.0
#include "evaluators/check/compare.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>
#include <numeric>

#include "evaluators/system/random.hpp"

using namespace cultivar;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// softmax with R rows of 8 columns; the compared values are made up here.
struct Bed {
  Task task = load_task(std::string(CULTIVAR_SOURCE_DIR) + "/configs/tasks/softmax");
  Workload workload;
  std::vector<std::int64_t> rows;
  std::vector<double> exact;
  std::vector<std::vector<std::byte>> outputs;

  explicit Bed(std::int64_t count) {
    workload.name = "w";
    workload.dtype = Dtype::f32;
    workload.values = {{"R", static_cast<double>(count)}, {"C", 8.0}};
    rows.resize(static_cast<std::size_t>(count));
    std::iota(rows.begin(), rows.end(), 0);
    for (std::size_t i = 0; i < rows.size() * 8; ++i)
      exact.push_back(round_to(Dtype::f32, std::sin(static_cast<double>(i) * 0.7)));
  }
  Comparison judge(const std::vector<double>& got, std::vector<double> rounded = {}) const {
    std::vector<std::vector<std::byte>> bytes(1, std::vector<std::byte>(got.size() * 4));
    encode(Dtype::f32, got, bytes[0]);
    ExpectedRows expected{rows, exact, {}};
    if (!rounded.empty()) expected.rounded = [rounded] { return rounded; };
    return compare(task, RowLayout(task, workload), bytes, expected);
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(compare)

BOOST_AUTO_TEST_CASE(the_right_answer_passes) {
  const Bed bed(100);
  const Comparison c = bed.judge(bed.exact);
  BOOST_TEST(c.right);
  BOOST_TEST(c.worst_ratio == 0.0);
}

// One row of an f16 output, whose model happened to round every element almost exactly.
BOOST_AUTO_TEST_CASE(the_last_place_of_the_outputs_type_is_legal_even_where_few_elements_are_compared) {
  Bed bed(1);
  bed.workload.dtype = Dtype::f16;
  const auto verdict = [&](double units) {
    std::vector<double> got = bed.exact, rounded = bed.exact;
    const double unit = epsilon_of(Dtype::f16) * 0.5;  // of values from 1/2 to 1, the largest here
    for (double& value : rounded) value *= 1 + 0.25 * epsilon_of(Dtype::f16);
    got[3] = round_to(Dtype::f16, got[3]) + units * unit;
    std::vector<std::vector<std::byte>> bytes(1, std::vector<std::byte>(got.size() * 2));
    encode(Dtype::f16, got, bytes[0]);
    ExpectedRows expected{bed.rows, bed.exact, [&] { return rounded; }};
    return cultivar::compare(bed.task, RowLayout(bed.task, bed.workload), bytes, expected);
  };
  BOOST_TEST(verdict(1.0).right, verdict(1.0).diagnostics);
  BOOST_TEST(!verdict(4.0).right);
}

BOOST_AUTO_TEST_CASE(an_error_within_twice_the_legal_rounding_passes_and_beyond_it_fails) {
  const Bed bed(64);
  std::vector<double> rounded = bed.exact, within = bed.exact, beyond = bed.exact;
  for (std::size_t i = 0; i < rounded.size(); ++i) {
    const double sign = i % 2 == 0 ? 1.0 : -1.0;
    rounded[i] += sign * 1e-3;
    within[i] += sign * 1.9e-3;
    beyond[i] += sign * 2.1e-3;
  }
  BOOST_TEST(bed.judge(within, rounded).right);
  BOOST_TEST(!bed.judge(beyond, rounded).right);
  BOOST_TEST(!bed.judge(within).right);  // without a model only the floor is allowed
}

BOOST_AUTO_TEST_CASE(one_wrong_element_in_a_big_tensor_is_found_and_named) {
  const Bed bed(4096);
  std::vector<double> got = bed.exact;
  got[3000 * 8 + 5] += 0.01;
  const Comparison c = bed.judge(got);
  BOOST_TEST(!c.right);
  BOOST_TEST(c.reason.find("1 of 64 blocks") != std::string::npos, c.reason);
  BOOST_TEST(c.diagnostics.find("y[R=3000, C=5]") != std::string::npos, c.diagnostics);
  BOOST_TEST(c.diagnostics.find("1 of 32768") != std::string::npos, c.diagnostics);
}

BOOST_AUTO_TEST_CASE(a_small_block_is_judged_by_its_own_scale) {
  // All rows are about 1 except one block, which is about 1e-4 and half wrong: on the scale of the whole
  // tensor its error would be invisible.
  Bed bed(4096);
  std::vector<double> rounded(bed.exact.size());
  for (std::size_t i = 0; i < bed.exact.size(); ++i) {
    if (i >= 640 * 8 && i < 704 * 8) bed.exact[i] = round_to(Dtype::f32, bed.exact[i] * 1e-4);
    rounded[i] = bed.exact[i] * (1 + 1e-4);
  }
  std::vector<double> got = bed.exact;
  for (std::size_t i = 640 * 8; i < 704 * 8; ++i) got[i] *= 1.5;
  const Comparison c = bed.judge(got, rounded);
  BOOST_TEST(!c.right);
  BOOST_TEST(c.diagnostics.find("R 640..703") != std::string::npos, c.diagnostics);
  BOOST_TEST(c.diagnostics.find("1.5 x the expected value") != std::string::npos, c.diagnostics);
}

BOOST_AUTO_TEST_CASE(a_loss_of_precision_everywhere_fails_by_its_rms) {
  const Bed bed(64);
  std::vector<double> rounded = bed.exact, got = bed.exact;
  rounded[17] += 1e-2;  // one legal outlier sets the maximum
  for (std::size_t i = 0; i < got.size(); ++i) got[i] += i % 2 == 0 ? 5e-3 : -5e-3;
  const Comparison c = bed.judge(got, rounded);
  BOOST_TEST(!c.right);
  BOOST_TEST(c.diagnostics.find("precision is lost") != std::string::npos, c.diagnostics);
}

BOOST_AUTO_TEST_CASE(non_finite_values_must_stand_where_the_oracle_has_them) {
  Bed bed(64);
  bed.exact[10] = -kInfinity;
  bed.exact[20] = std::nan("");
  BOOST_TEST(bed.judge(bed.exact).right);
  for (const auto& [at, value] : std::vector<std::pair<std::size_t, double>>{{10, 0.0},
                                                                             {10, kInfinity},
                                                                             {10, std::nan("")},
                                                                             {20, 0.0},
                                                                             {20, kInfinity},
                                                                             {30, std::nan("")},
                                                                             {30, kInfinity}}) {
    std::vector<double> got = bed.exact;
    got[at] = value;
    const Comparison c = bed.judge(got);
    BOOST_TEST(!c.right, "element " << at << " = " << value);
    BOOST_TEST(!c.diagnostics.empty());
  }
}

BOOST_AUTO_TEST_CASE(nan_is_no_wildcard_even_when_everything_is_nan) {
  const Bed bed(64);
  const Comparison c = bed.judge(std::vector<double>(bed.exact.size(), std::nan("")));
  BOOST_TEST(!c.right);
  BOOST_TEST(c.diagnostics.find("every wrong element is NaN") != std::string::npos, c.diagnostics);
}

BOOST_AUTO_TEST_CASE(a_wrong_last_tile_is_called_one) {
  const Bed bed(200);
  std::vector<double> got = bed.exact;
  for (std::size_t i = 192 * 8; i < got.size(); ++i) got[i] = 0.0;
  const Comparison c = bed.judge(got);
  BOOST_TEST(!c.right);
  BOOST_TEST(c.diagnostics.find("192..199") != std::string::npos, c.diagnostics);
  BOOST_TEST(c.diagnostics.find("reach the end") != std::string::npos, c.diagnostics);
  BOOST_TEST(c.diagnostics.find("every wrong element is 0") != std::string::npos, c.diagnostics);
}

BOOST_AUTO_TEST_CASE(only_the_rows_that_are_listed_are_compared) {
  Bed bed(100);
  std::vector<double> got = bed.exact;
  for (std::size_t e = 0; e < 8; ++e) got[50 * 8 + e] = 7.0;
  bed.rows = {3, 50, 99};
  std::vector<double> three;
  for (const std::int64_t r : bed.rows)
    for (std::size_t e = 0; e < 8; ++e) three.push_back(bed.exact[static_cast<std::size_t>(r) * 8 + e]);
  const std::vector<double> all = bed.exact;
  bed.exact = three;
  BOOST_TEST(!bed.judge(got).right);
  bed.rows = {3, 98, 99};
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t e = 0; e < 8; ++e)
      bed.exact[i * 8 + e] = all[static_cast<std::size_t>(bed.rows[i]) * 8 + e];
  BOOST_TEST(bed.judge(got).right);
}

BOOST_AUTO_TEST_CASE(unwritten_elements_beyond_chance_are_too_many) {
  const Bed bed(4096);
  const RowLayout layout(bed.task, bed.workload);
  BOOST_TEST(!too_many_unwritten(layout, 0));
  BOOST_TEST(!too_many_unwritten(layout, 1));
  BOOST_TEST(too_many_unwritten(layout, 2));
  const std::size_t groups = 32768 / 2;  // a session counts 8 bytes as one
  BOOST_TEST(describe_unwritten(layout, 5).find("5 of the outputs' 16384 groups of 8 bytes") == 0U);
  BOOST_TEST(describe_unwritten(layout, groups - 1).find("16383 of") == 0U);
  BOOST_TEST(describe_unwritten(layout, groups).find("The outputs were never written") == 0U);
}

BOOST_AUTO_TEST_CASE(rows_of_several_outputs_find_their_places) {
  const Task task = load_task(std::string(CULTIVAR_SOURCE_DIR) + "/configs/tasks/attention_forward");
  Workload w;
  w.dtype = Dtype::f32;
  w.values = {{"B", 2}, {"H", 3},      {"H_kv", 3},  {"S_q", 5},    {"S_kv", 5},
              {"D", 4}, {"causal", 0}, {"scale", 1}, {"window", 0}, {"softcap", 0}};
  const RowLayout layout(task, w);
  BOOST_TEST(layout.rows() == 30);
  BOOST_TEST(layout.groups().front().elements == 5);
  BOOST_REQUIRE(layout.outputs().size() == 2U);
  const OutputLayout& o = layout.outputs()[0];
  const OutputLayout& lse = layout.outputs()[1];
  // rows walk [B, S_q, H]; row 22 = b 1, i 2, h 1; o is [B, S_q, H, D], lse is [B, H, S_q]
  BOOST_TEST(layout.base(o, 22) == ((1 * 5 + 2) * 3 + 1) * 4);
  BOOST_TEST(layout.base(lse, 22) == (1 * 3 + 1) * 5 + 2);
  BOOST_TEST(layout.describe(lse, layout.base(lse, 22)) == "lse[B=1, H=1, S_q=2]");
}

BOOST_AUTO_TEST_CASE(derived_seeds_differ_by_purpose_and_index_and_repeat) {
  BOOST_TEST(derive_seed(1, "a") == derive_seed(1, "a"));
  BOOST_TEST(derive_seed(1, "a") != derive_seed(1, "b"));
  BOOST_TEST(derive_seed(1, "a", 1) != derive_seed(1, "a", 2));
  BOOST_TEST(derive_seed(1, "a") != derive_seed(2, "a"));
  BOOST_TEST(secret_seed() != secret_seed());
}

BOOST_AUTO_TEST_CASE(an_output_with_rows_of_its_own_has_them_after_those_of_the_task) {
  const Task task = load_task(std::string(CULTIVAR_SOURCE_DIR) + "/configs/tasks/rmsnorm_backward");
  Workload w;
  w.dtype = Dtype::f32;
  w.values = {{"R", 3}, {"C", 5}};
  const RowLayout layout(task, w);
  BOOST_TEST(layout.rows() == 8);
  const OutputLayout &dx = layout.outputs()[0], &dw = layout.outputs()[1];
  BOOST_TEST(layout.base(dx, 2) == 10);
  BOOST_TEST(layout.base(dw, 3) == 0);
  BOOST_TEST(layout.base(dw, 7) == 4);
  const std::vector<std::int64_t> rows{0, 2, 4, 7};
  BOOST_TEST(layout.values_of(rows) == 12U);
  const RowSpan of_dx = layout.span_of(dx, rows), of_dw = layout.span_of(dw, rows);
  BOOST_TEST((of_dx.first == 0 && of_dx.last == 2 && of_dx.value == 0));
  BOOST_TEST((of_dw.first == 2 && of_dw.last == 4 && of_dw.value == 10));

  // Rows 0 and 2 of dx, and elements 1 and 4 of dw.
  std::vector<double> exact(12, 1.0), outputs_dx(15, 1.0), outputs_dw(5, 1.0);
  const auto judged = [&] {
    std::vector<std::vector<std::byte>> bytes{std::vector<std::byte>(60), std::vector<std::byte>(20)};
    encode(Dtype::f32, outputs_dx, bytes[0]);
    encode(Dtype::f32, outputs_dw, bytes[1]);
    return cultivar::compare(task, layout, bytes, {rows, exact, {}});
  };
  outputs_dx[7] = outputs_dw[0] = 9.0;  // not compared
  BOOST_TEST(judged().right, judged().diagnostics);
  outputs_dw[4] = 2.0;
  BOOST_TEST(judged().reason == "dw differs from the oracle");
  BOOST_TEST(judged().diagnostics.find("dw[C=4] got 2, expected 1") != std::string::npos,
             judged().diagnostics);
}

BOOST_AUTO_TEST_CASE(what_the_dtype_cannot_hold_may_be_infinite_with_the_right_sign) {
  const Task task = load_task(std::string(CULTIVAR_SOURCE_DIR) + "/configs/tasks/softmax");
  Workload w;
  w.dtype = Dtype::f16;
  w.values = {{"R", 1}, {"C", 4}};
  const RowLayout layout(task, w);
  const std::vector<std::int64_t> rows{0};
  const auto right = [&](std::vector<double> got, std::vector<double> exact) {
    std::vector<std::vector<std::byte>> bytes{std::vector<std::byte>(8)};
    encode(Dtype::f16, got, bytes[0]);
    return cultivar::compare(task, layout, bytes, {rows, exact, {}}).right;
  };
  BOOST_TEST(right({1, 2, kInfinity, -kInfinity}, {1, 2, 73728, -1e9}));
  BOOST_TEST(right({1, 2, 3, kInfinity}, {1, 2, 3, 65490}));
  BOOST_TEST(!right({1, 2, 3, -kInfinity}, {1, 2, 3, 73728}));
  BOOST_TEST(!right({1, 2, 3, kInfinity}, {1, 2, 3, 60000}));
  BOOST_TEST(!right({1, 2, 3, std::nan("")}, {1, 2, 3, 73728}));
}

BOOST_AUTO_TEST_SUITE_END()
