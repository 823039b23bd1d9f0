// SPDX-License-Identifier: Apache-2.0
#include "evaluators/statistics/sequential_test.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>

using namespace cultivar;

BOOST_AUTO_TEST_SUITE(alpha_ledger)

BOOST_AUTO_TEST_CASE(a_run_never_spends_more_than_its_alpha_however_long_it_lasts) {
  AlphaLedger ledger(0.05);
  double sum = 0.0;
  for (int i = 0; i < 1'000'000; ++i) sum += ledger.next();
  BOOST_TEST(sum < 0.05);
  BOOST_TEST(ledger.spent() == sum);
  // What is left of the series is at most the integral of 1 / (n ln^2 n), 1 / ln n.
  BOOST_TEST(sum + 0.05 / (2.1098 * std::log(1'000'001.0)) <= 0.05);
}

BOOST_AUTO_TEST_CASE(most_of_the_alpha_is_spent_not_hoarded) {
  AlphaLedger ledger(0.05);
  for (int i = 0; i < 100; ++i) ledger.next();
  BOOST_TEST(ledger.spent() > 0.85 * 0.05);
}

BOOST_AUTO_TEST_CASE(each_comparison_gets_less_than_the_one_before_and_never_nothing) {
  AlphaLedger ledger(0.02);
  double before = 1.0;
  for (int i = 0; i < 10'000; ++i) {
    const double alpha = ledger.next();
    BOOST_REQUIRE(alpha < before);
    BOOST_REQUIRE(alpha > 0.0);
    before = alpha;
  }
}

BOOST_AUTO_TEST_CASE(a_resumed_run_continues_where_it_was) {
  AlphaLedger whole(0.02);
  for (int i = 0; i < 57; ++i) whole.next();
  AlphaLedger resumed(0.02, 57);
  BOOST_TEST(resumed.spent() == whole.spent());
  BOOST_TEST(resumed.next() == whole.next());
  BOOST_TEST(resumed.comparisons() == 58u);
}

BOOST_AUTO_TEST_CASE(an_alpha_that_is_no_probability_is_refused) {
  BOOST_CHECK_THROW(AlphaLedger(0.0), std::invalid_argument);
  BOOST_CHECK_THROW(AlphaLedger(1.0), std::invalid_argument);
  BOOST_CHECK_THROW(AlphaLedger(std::nan("")), std::invalid_argument);
}

BOOST_AUTO_TEST_SUITE_END()
