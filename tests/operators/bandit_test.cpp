// SPDX-License-Identifier: Apache-2.0
#include "operators/portfolio.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <numeric>

using namespace cultivar;

BOOST_AUTO_TEST_SUITE(bandit)

BOOST_AUTO_TEST_CASE(without_gains_the_shares_are_the_priors) {
  Bandit b({3.0, 1.0}, {.learn = true});
  for (int i = 0; i < 50; ++i) b.tried(0, 0.1, 2.0);
  BOOST_TEST(b.shares().at(0) == 0.75);
  BOOST_TEST(b.shares().at(1) == 0.25);
}

BOOST_AUTO_TEST_CASE(an_operator_with_more_gain_per_cost_gets_more_and_none_less_than_the_floor) {
  Bandit b({1.0, 1.0}, {.learn = true, .floor = 0.2, .memory = 100.0});
  for (int i = 0; i < 60; ++i) {
    b.tried(0, 0.01, 2.0);
    b.tried(1, 0.01, 2.0);
    if (i % 5 == 0) b.gained(0, std::log(1.05));
  }
  const auto shares = b.shares();
  BOOST_TEST(shares[0] > 0.7);
  BOOST_TEST(shares[1] >= 0.1);
  BOOST_TEST(std::abs(std::accumulate(shares.begin(), shares.end(), 0.0) - 1.0) < 1e-12);
}

BOOST_AUTO_TEST_CASE(equal_gains_at_ten_times_the_price_are_worth_less) {
  Bandit b({1.0, 1.0}, {.learn = true});
  for (int i = 0; i < 60; ++i) {
    b.tried(0, 0.01, 1.0);
    b.tried(1, 0.10, 1.0);
    if (i % 10 == 0) b.gained(0, 0.05), b.gained(1, 0.05);
  }
  BOOST_TEST(b.shares()[0] > 1.3 * b.shares()[1]);
}

BOOST_AUTO_TEST_CASE(what_was_good_long_ago_counts_less_than_what_is_good_now) {
  Bandit b({1.0, 1.0}, {.learn = true, .floor = 0.1, .memory = 30.0});
  for (int i = 0; i < 40; ++i) {
    b.tried(0, 0.0, 1.0);
    if (i % 4 == 0) b.gained(0, 0.05);
    b.tried(1, 0.0, 1.0);
  }
  BOOST_TEST(b.shares()[0] > 0.65);
  for (int i = 0; i < 80; ++i) {
    b.tried(0, 0.0, 1.0);
    b.tried(1, 0.0, 1.0);
    if (i % 4 == 0) b.gained(1, 0.05);
  }
  BOOST_TEST(b.shares()[1] > 0.65);
}

BOOST_AUTO_TEST_CASE(one_that_does_not_learn_keeps_the_weights) {
  Bandit b({1.0, 4.0}, {});
  b.tried(0, 0.0, 1.0);
  b.gained(0, 1.0);
  BOOST_TEST(b.shares()[0] == 0.2);
}

BOOST_AUTO_TEST_SUITE_END()
