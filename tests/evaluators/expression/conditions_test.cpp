// SPDX-License-Identifier: Apache-2.0
#include "evaluators/expression/expression.hpp"

#include <boost/test/unit_test.hpp>

using namespace cultivar;

namespace {

void check(std::string_view text, const std::vector<std::string>& expected) {
  std::vector<std::string> found;
  for (const Condition& condition : conditions_in(text)) found.push_back(condition.text);
  BOOST_TEST(found == expected, boost::test_tools::per_element());
}

}  // namespace

BOOST_AUTO_TEST_SUITE(conditions)

BOOST_AUTO_TEST_CASE(conditions_before_a_question_mark_and_their_parts) {
  check("M >= 512 && N >= 512 ? 8 : 4", {"M >= 512 && N >= 512", "M >= 512", "N >= 512"});
  check("causal ? 1 : S_q == 1 ? 2 : 3", {"causal", "S_q == 1"});
  check("a ? (b < 1 ? 1 : 2) : 3", {"a", "b < 1"});
  check("(M > 1 || K % 8 == 0) && !causal", {"(M > 1 || K % 8 == 0)", "M > 1", "K % 8 == 0", "!causal"});
}

BOOST_AUTO_TEST_CASE(operands_are_marked) {
  const std::vector<Condition> found = conditions_in("a > 1 && b > 1 ? c > 1 : 2");
  BOOST_REQUIRE(found.size() == 4u);
  for (const Condition& condition : found)
    BOOST_TEST(condition.operand == (condition.text == "a > 1" || condition.text == "b > 1"), condition.text);
}

BOOST_AUTO_TEST_CASE(comparisons_anywhere_in_arithmetic) {
  check("4 * (R > 16) + C", {"R > 16"});
  check("8 * R * C > 3 * l3_bytes", {"8 * R * C > 3 * l3_bytes"});
  check("ceil_div(R, C >= 64 ? 8 : 4) * 2", {"C >= 64"});
  check("(a + 1) * (b != 2)", {"b != 2"});
}

BOOST_AUTO_TEST_CASE(the_smaller_of_two_is_decided_by_a_comparison) {
  check("min(256, floor(l2_bytes / (4 * C)))", {"(256) < (floor(l2_bytes / (4 * C)))"});
  check("max(1, num_cores - 1) + 2", {"(1) < (num_cores - 1)"});
}

BOOST_AUTO_TEST_CASE(plain_arithmetic_decides_nothing) {
  for (const char* text : {"", "R", "ceil_div(R, 16)", "(R + 1) * 4", "64"}) check(text, {});
}

BOOST_AUTO_TEST_CASE(texts_that_are_no_expressions_are_read_to_their_end) {
  for (const char* text : {"?", "a ?", "a ? b", "((", "))", "min(", "a < ", "&&", "a ? b : c ? d"})
    (void)conditions_in(text);
  BOOST_TEST(conditions_in("a ? b").size() == 1u);
}

BOOST_AUTO_TEST_SUITE_END()
