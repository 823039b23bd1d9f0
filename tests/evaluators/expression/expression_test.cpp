// SPDX-License-Identifier: Apache-2.0
#include "evaluators/expression/expression.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <thread>

using namespace cultivar;

namespace {

double value_of(const std::string& text, const Bindings& bindings = {}) {
  const auto expression = Expression::parse(text);
  BOOST_REQUIRE_MESSAGE(expression, text << ": " << (expression ? "" : expression.error().message));
  const auto value = expression->evaluate(bindings);
  BOOST_REQUIRE_MESSAGE(value, (value ? "" : value.error().message));
  return *value;
}
std::string parse_error(const std::string& text) {
  const auto expression = Expression::parse(text);
  return expression ? "no error" : expression.error().message;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(expression)

BOOST_AUTO_TEST_CASE(arithmetic_comparison_logic_and_choice_work) {
  const Bindings b{{"a", 7}, {"b", 3}, {"D", 128}, {"dtype", 3}, {"flag", 0}};
  BOOST_TEST(value_of("a + b * 2", b) == 13);
  BOOST_TEST(value_of("a % b", b) == 1);
  BOOST_TEST(value_of("a % b * 2", b) == 2);
  BOOST_TEST(value_of("2 ^ 10") == 1024);
  BOOST_TEST(value_of("-a + 1", b) == -6);
  BOOST_TEST(value_of("D == 128 && dtype == bf16", b) == 1);
  BOOST_TEST(value_of("D == 64 || dtype == f16", b) == 0);
  BOOST_TEST(value_of("!flag", b) == 1);
  BOOST_TEST(value_of("!flag && !(a == b)", b) == 1);
  BOOST_TEST(value_of("a != b", b) == 1);
  BOOST_TEST(value_of("a >= 7 && a <= 7", b) == 1);
  BOOST_TEST(value_of("flag ? a : b", b) == 3);
  BOOST_TEST(value_of("a > b ? a > 6 ? 1 : 2 : 3", b) == 1);
  BOOST_TEST(value_of("ceil_div(a, b)", b) == 3);
  BOOST_TEST(value_of("floor_div(a, b)", b) == 2);
  BOOST_TEST(value_of("round_up(a, b)", b) == 9);
  BOOST_TEST(value_of("min(a, b, 1) + max(a, b)", b) == 8);
  BOOST_TEST(value_of("1 / sqrt(D)", b) == 1 / std::sqrt(128.0));
  BOOST_TEST(value_of("floor(3.5) + ceil(3.5)") == 7);
  BOOST_TEST(value_of("9007199254740991") == 9007199254740991.0);
  BOOST_TEST(value_of("1e3") == 1000);
}

BOOST_AUTO_TEST_CASE(names_are_listed_once_sorted_without_functions_and_dtypes) {
  const auto e = Expression::parse("b * a + ceil_div(a, c) + (dtype == bf16)");
  BOOST_REQUIRE(e);
  BOOST_TEST(e->names() == (std::vector<std::string>{"a", "b", "c", "dtype"}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(an_unknown_name_is_named_with_the_nearest) {
  const auto e = Expression::parse("BLOCK_m * 2");
  BOOST_REQUIRE(e);
  BOOST_TEST(e->evaluate({{"BLOCK_M", 1}, {"D", 2}}).error().message ==
             "'BLOCK_m * 2': unknown name 'BLOCK_m' (did you mean 'BLOCK_M'? known: BLOCK_M, D)");
}

BOOST_AUTO_TEST_CASE(a_non_finite_result_is_an_error_that_shows_the_numbers) {
  BOOST_TEST(Expression::parse("a * b")->evaluate({{"a", 1e300}, {"b", 1e300}}).error().message ==
             "'a * b': is infinite (with a=1e+300, b=1e+300)");
  const auto why = [](const char* text) {
    return Expression::parse(text)->evaluate({{"a", 1}, {"b", 0}}).error().message;
  };
  BOOST_TEST(why("a % b") == "'a % b': has no value (check for x % 0) (with a=1, b=0)");
  BOOST_TEST(why("log2(b) < 1") ==
             "'log2(b) < 1': has no value (check for log2 of a number that is not positive) (with b=0)");
  BOOST_TEST(why("log2(b - a) < 1").find("check for log2 of") != std::string::npos);
  BOOST_TEST(why("sqrt(b - a) / 2") ==
             "'sqrt(b - a) / 2': has no value (check for x / 0, the root of a negative number) (with a=1, "
             "b=0)");
  BOOST_TEST(why("a % b ? 1 : 2") ==
             "'a % b ? 1 : 2': the condition of ? : has no value (check for x % 0) (with a=1, b=0)");
  BOOST_TEST(!Expression::parse("sqrt(0 - a)")->evaluate({{"a", 1}}).has_value());
}

// A constraint with it would hold or not by chance.
BOOST_AUTO_TEST_CASE(what_is_computed_from_a_division_by_zero_is_an_error_too) {
  for (const char* text : {"a / b",
                           "a / b > 1",
                           "a / b < 1",
                           "!(a / b > 1)",
                           "a % b != 1",
                           "a % b == 0",
                           "ceil_div(a, b) >= 1",
                           "floor_div(a, b) != 2",
                           "round_up(a, b) <= 4",
                           "min(a, a / b)",
                           "max(a / b, a)",
                           "(a / b) ^ 0",
                           "b ^ -1 > 1",
                           "log2(b) < 1",
                           "a > 0 && a / b > 1",
                           "b > 0 || a % b == 0",
                           "1 / (a / b) == 0",
                           "a / b > 1 ? 1 : 2",
                           "a > 1 ? a % b == 0 ? 1 : 2 : 3",
                           "max((a / b) ? 1 : 2, 3)"}) {
    const auto value = Expression::parse(text)->evaluate({{"a", 4}, {"b", 0}});
    BOOST_TEST(!value, text);
    BOOST_TEST((value || value.error().message.find("has no value (check for ") != std::string::npos), text);
  }
}

BOOST_AUTO_TEST_CASE(a_condition_may_guard_a_division) {
  const Bindings b{{"a", 4}, {"b", 0}};
  BOOST_TEST(value_of("b != 0 && a / b > 1", b) == 0);
  BOOST_TEST(value_of("a / b > 1 && b != 0", b) == 0);
  BOOST_TEST(value_of("b == 0 || a % b == 0", b) == 1);
  BOOST_TEST(value_of("b == 0 ? a : a / b", b) == 4);
  BOOST_TEST(value_of("max(b == 0 || a / b > 1 ? a ? 5 : 6 : 7, b ? 1 : (b ? 2 : 3))", b) == 5);
}

BOOST_AUTO_TEST_CASE(integers_must_be_whole_and_large_enough) {
  const Bindings b{{"a", 7}};
  BOOST_TEST(Expression::parse("a * 2")->evaluate_integer(b).value() == 14);
  BOOST_TEST(Expression::parse("a / 2")->evaluate_integer(b).error().message ==
             "'a / 2': must be a whole number, but is 3.5 (with a=7)");
  BOOST_TEST(Expression::parse("a * 1e18 / 7")->evaluate_integer(b).error().message ==
             "'a * 1e18 / 7': must be between -2^53 and 2^53, where each whole number is exact, but is 1e+18 "
             "(with a=7)");
  BOOST_TEST(Expression::parse("a - 7")->evaluate_integer(b, 1).error().message ==
             "'a - 7': must be at least 1, but is 0 (with a=7)");
}

BOOST_AUTO_TEST_CASE(what_is_not_one_expression_is_refused) {
  for (const char* text :
       {"", "  ", "a +", "(a", "a b", "1, 2", "a = 3", "\"x\"", "foo(", "nosuch(1)", "min()"})
    BOOST_TEST(parse_error(text) != "no error", text);
  BOOST_TEST(parse_error("D = 128") == "'D = 128': = is not a comparison (write ==)");
  BOOST_TEST(parse_error(std::string(100000, '(')) != "no error");
}

BOOST_AUTO_TEST_CASE(the_language_is_what_the_readme_lists_and_nothing_of_the_library) {
  for (const char* text :
       {"sin(1)", "tan(1)", "exp(1)", "sum(1, 2)", "avg(1, 2)", "sign(1)", "rint(1)", "log(2)"})
    BOOST_TEST(parse_error(text) != "no error", text);
  const Expression constants = Expression::parse("_pi + _e").value();
  BOOST_TEST(constants.names().size() == 2u);  // names like any other
  BOOST_TEST(value_of("abs(0 - 2) + log2(8) + sqrt(4) + min(4, 3, 5) + max(1)") == 11);
  for (const std::string& name : Expression::reserved_names()) BOOST_TEST(!name.starts_with("_"), name);
}

BOOST_AUTO_TEST_CASE(constants_and_texts_round_trip) {
  BOOST_TEST(Expression::constant(64).text() == "64");
  BOOST_TEST(Expression::constant(0.1).evaluate({}).value() == 0.1);
  BOOST_TEST((Expression::parse(" a+1 ").value() == Expression::parse("a+1").value()));
}

BOOST_AUTO_TEST_CASE(many_threads_evaluate_the_same_expression) {
  const Expression e = Expression::parse("a * 2 + b").value();
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2000; ++i)
        if (e.evaluate({{"a", i}, {"b", t}}).value() != 2 * i + t) ++wrong[static_cast<std::size_t>(t)];
    });
  for (auto& thread : threads) thread.join();
  for (int count : wrong) BOOST_TEST(count == 0);
}

BOOST_AUTO_TEST_CASE(more_expressions_than_the_cache_holds_still_evaluate) {
  for (int i = 0; i < 1200; ++i) BOOST_TEST(value_of("a + " + std::to_string(i), {{"a", 1}}) == i + 1);
}

BOOST_AUTO_TEST_SUITE_END()
