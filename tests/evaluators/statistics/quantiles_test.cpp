// SPDX-License-Identifier: Apache-2.0
#include "evaluators/statistics/quantiles.hpp"

#include <boost/test/unit_test.hpp>
#include <limits>
#include <vector>

using namespace cultivar;

BOOST_AUTO_TEST_SUITE(quantiles)

BOOST_AUTO_TEST_CASE(quantiles_interpolate_between_order_statistics) {
  const std::vector<double> values = {4.0, 1.0, 3.0, 2.0};
  BOOST_TEST(quantile(values, 0.0) == 1.0);
  BOOST_TEST(quantile(values, 1.0) == 4.0);
  BOOST_TEST(median(values) == 2.5);
  BOOST_TEST(quantile(values, 0.25) == 1.75);
  const Quartiles all = quartiles(values);
  BOOST_TEST(all.q1 == 1.75);
  BOOST_TEST(all.median == 2.5);
  BOOST_TEST(all.q3 == 3.25);
}

BOOST_AUTO_TEST_CASE(a_single_value_is_every_quantile) {
  const std::vector<double> values = {7.0};
  for (const double p : {0.0, 0.3, 1.0}) BOOST_TEST(quantile(values, p) == 7.0);
}

BOOST_AUTO_TEST_CASE(an_empty_sample_and_an_impossible_quantile_are_refused) {
  const std::vector<double> none, one = {1.0};
  BOOST_CHECK_THROW(median(none), std::invalid_argument);
  BOOST_CHECK_THROW(quartiles(none), std::invalid_argument);
  BOOST_CHECK_THROW(quantile(one, 1.1), std::invalid_argument);
  BOOST_CHECK_THROW(quantile(one, std::numeric_limits<double>::quiet_NaN()), std::invalid_argument);
}

BOOST_AUTO_TEST_SUITE_END()
