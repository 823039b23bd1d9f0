// SPDX-License-Identifier: Apache-2.0
#include "evaluators/launchers/cpp_expression.hpp"

#include <boost/test/unit_test.hpp>
#include <fstream>
#include <iterator>
#include <string>

using namespace cultivar;

BOOST_AUTO_TEST_SUITE(cpp_expression)

namespace {
std::string cpp(const std::string& text) {
  const auto expression = Expression::parse(text);
  BOOST_REQUIRE_MESSAGE(expression, text);
  const auto result = to_cpp(*expression);
  BOOST_REQUIRE_MESSAGE(result, text);
  return *result;
}
}  // namespace

BOOST_AUTO_TEST_CASE(numbers_become_doubles_and_precedence_is_kept) {
  BOOST_TEST(cpp("2 * STAGES + 1") == "((2.0 * n_STAGES) + 1.0)");
  BOOST_TEST(cpp("a - b - c") == "((n_a - n_b) - n_c)");
  BOOST_TEST(cpp("(BLOCK_M + 2*N) * D * 2") == "(((n_BLOCK_M + (2.0 * n_N)) * n_D) * 2.0)");
}

BOOST_AUTO_TEST_CASE(what_cpp_spells_differently_is_translated) {
  BOOST_TEST(cpp("-2^2") == "(-std::pow(2.0, 2.0))");
  BOOST_TEST(cpp("S / 2 / T") == "expression::divide(expression::divide(n_S, 2.0), n_T)");
  BOOST_TEST(cpp("S % 128") == "std::fmod(n_S, 128.0)");
  BOOST_TEST(cpp("ceil_div(S_q, TILE)") == "expression::ceil_div(n_S_q, n_TILE)");
  BOOST_TEST(cpp("D == 64 && causal") == "double((double(n_D == 64.0) != 0.0) && (n_causal != 0.0))");
  BOOST_TEST(cpp("a ? b : c + 1") == "((n_a) != 0.0 ? n_b : (n_c + 1.0))");
  BOOST_TEST(cpp("1e-3 * 2.5") == "(1e-3 * 2.5)");
}

BOOST_AUTO_TEST_CASE(every_function_of_the_language_can_be_written) {
  const std::string header = [] {
    std::ifstream in(CULTIVAR_SOURCE_DIR "/evaluators/launchers/templates/expressions.hpp.in");
    return std::string(std::istreambuf_iterator<char>(in), {});
  }();
  BOOST_REQUIRE(!header.empty());
  int functions = 0;
  for (const std::string& name : Expression::reserved_names()) {
    if (!Expression::parse(name + "(1)") && !Expression::parse(name + "(1, 2)")) continue;  // a dtype
    const bool defined = header.find("double " + name + "(") != std::string::npos ||
                         header.find("std::" + name) != std::string::npos;
    BOOST_TEST(defined, name);
    ++functions;
  }
  BOOST_TEST(functions == 10);
}

BOOST_AUTO_TEST_SUITE_END()
