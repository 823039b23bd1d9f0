// SPDX-License-Identifier: Apache-2.0
#include "evaluators/judge/source_numbers.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <string>

using namespace cultivar;

namespace {

Variant with_code(const std::string& code) {
  Variant variant;
  variant.source = code;
  variant.manifest.tunables = {{"LANES", {std::int64_t{8}, std::int64_t{16}}, std::int64_t{16}}};
  variant.configuration = {{"LANES", std::int64_t{16}}};
  return variant;
}

bool has(const std::vector<std::int64_t>& numbers, std::int64_t number) {
  return std::ranges::find(numbers, number) != numbers.end();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(source_numbers)

BOOST_AUTO_TEST_CASE(numbers_beside_a_comparison_are_told_apart) {
  const SourceNumbers n = cultivar::source_numbers(with_code("if (C > 4096) x[777] = y % 48;"));
  BOOST_TEST((has(n.compared, 4096) && has(n.compared, 48)));
  BOOST_TEST((has(n.others, 777) && !has(n.compared, 777)));
}

BOOST_AUTO_TEST_CASE(products_shifts_tunables_and_constants_count_by_their_value) {
  const SourceNumbers n =
      cultivar::source_numbers(with_code("constexpr int kTile = 3 * LANES;\n#define WIDE 1000\nif (C >= 4 * "
                                         "kTile || R < 1 << 16 || C == WIDE + 24) {}"));
  for (const std::int64_t number : {192, 65536, 1024}) BOOST_TEST(has(n.compared, number), number);
  BOOST_TEST(has(n.others, 48));
}

BOOST_AUTO_TEST_CASE(factors_multiply_a_name_that_is_compared) {
  const SourceNumbers n = cultivar::source_numbers(
      with_code("if (N == 4 * K || R > C * 3 || 7 * M < N) x[5 * i] = 11 * y; if (B * 6 >= H) {}"));
  BOOST_TEST(n.factors == (std::vector<std::int64_t>{3, 4, 6, 7}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_number_is_told_with_the_name_that_is_compared) {
  const SourceNumbers n = cultivar::source_numbers(with_code("if (D % 128 != 0 || 4096 < C) x[7] = 9;"));
  using Named = std::pair<std::string, std::int64_t>;
  BOOST_TEST((n.named == std::vector<Named>{{"C", 4096}, {"D", 128}}));
}

BOOST_AUTO_TEST_CASE(a_condition_joins_numbers_and_remainders) {
  const SourceNumbers n = cultivar::source_numbers(with_code(
      "y = C > 5000 && C % 24 == 23 ? a : b; if (R == 1 && (V % LANES) != 0) {} if (N > 7 || N < 3) {}"));
  BOOST_REQUIRE(n.conditions.size() == 2u);
  BOOST_TEST(n.conditions[0].numbers == std::vector<std::int64_t>{5000}, boost::test_tools::per_element());
  BOOST_REQUIRE(n.conditions[0].remainders.size() == 1u);
  BOOST_TEST((n.conditions[0].remainders[0] == std::pair<std::int64_t, std::int64_t>(24, 23)));
  BOOST_TEST((n.conditions[1].remainders.at(0) == std::pair<std::int64_t, std::int64_t>(16, 0)));
}

BOOST_AUTO_TEST_CASE(thresholds_are_real_numbers_with_which_values_are_compared) {
  const SourceNumbers n = cultivar::source_numbers(
      with_code("float most = -1e5f; y = d > -20.0f ? 0.5f * x : std::fabs(v) < 1e-4f ? 3.25f * v : v;"));
  BOOST_TEST(n.thresholds == (std::vector<double>{1e5, 20.0, 20.0, 1e-4, 1e-4}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_whole_number_below_zero_is_a_size_of_values) {
  const SourceNumbers n =
      cultivar::source_numbers(with_code("y = d > -18 ? exp(d) : 0; if (C - 7 < R || C > 12) {}"));
  BOOST_TEST(n.thresholds == (std::vector<double>{18.0, 18.0}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(comments_text_and_real_numbers_are_not_read) {
  const SourceNumbers n =
      cultivar::source_numbers(with_code("// C > 4096\n/* R == 512 */ float a = 88.7f, b = 1e20; int h = "
                                         "0x40; char c = '9'; int big = 1'000'003;"));
  for (const std::int64_t number : {4096, 512, 88, 20, 9})
    BOOST_TEST((!has(n.compared, number) && !has(n.others, number)));
  BOOST_TEST((has(n.others, 64) && has(n.others, 1000003)));
}

BOOST_AUTO_TEST_CASE(expressions_of_a_manifest_are_read) {
  const SourceNumbers n =
      cultivar::source_numbers(with_code("/*--- cultivar\nrequires: \"C <= 300 && R % 12 == 0\"\n---*/\n"));
  BOOST_TEST((has(n.compared, 300) && has(n.compared, 12)));
}

BOOST_AUTO_TEST_CASE(a_variable_that_changes_has_no_value) {
  const SourceNumbers n =
      cultivar::source_numbers(with_code("for (int i = 5; i < C; ++i) if (i * 7 > C) {}"));
  BOOST_TEST(!has(n.compared, 35));
}

BOOST_AUTO_TEST_CASE(numbers_in_braces_are_rows_of_a_table) {
  const SourceNumbers n = cultivar::source_numbers(with_code(
      "constexpr Layer kTuned[] = {{3072, 768, 512}, {768, LANES}}; float parts[8] = {}; int one[] = {7};\n"
      "struct S { int N, K; }; f({x, 4}); g({1.5f, 2});"));
  BOOST_REQUIRE(n.rows.size() == 2u);
  BOOST_TEST(n.rows[0] == (std::vector<std::int64_t>{3072, 768, 512}), boost::test_tools::per_element());
  BOOST_TEST(n.rows[1] == (std::vector<std::int64_t>{768, 16}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(python_is_read_with_its_words_divisions_and_constants) {
  Variant variant = with_code(
      "\nLIMIT = 5000\nFAR = tl.constexpr(70000)\nif C > LIMIT and C % 24 == 23:\n    pass\n"
      "keep = (R > 300) & (R % 7 == 3)\nif C // 128 > 9 or N < FAR:  # 4321\n    pass\n");
  variant.manifest.target = target_named("cuda");
  variant.manifest.language = find_language("triton");
  const SourceNumbers n = cultivar::source_numbers(variant);
  for (const std::int64_t number : {5000, 24, 23, 300, 7, 3, 128, 9, 70000})
    BOOST_TEST(has(n.compared, number), number);
  BOOST_TEST((!has(n.compared, 4321) && !has(n.others, 4321)));
  BOOST_REQUIRE(n.conditions.size() == 2u);
  BOOST_TEST(n.conditions[0].numbers == std::vector<std::int64_t>{5000}, boost::test_tools::per_element());
  BOOST_TEST((n.conditions[0].remainders == std::vector<std::pair<std::int64_t, std::int64_t>>{{24, 23}}));
  BOOST_TEST((n.conditions[1].remainders == std::vector<std::pair<std::int64_t, std::int64_t>>{{7, 3}}));
  using Named = std::pair<std::string, std::int64_t>;
  BOOST_TEST((std::ranges::find(n.named, Named("C", 5000)) != n.named.end()));
}

BOOST_AUTO_TEST_SUITE_END()
