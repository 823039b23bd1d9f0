// SPDX-License-Identifier: Apache-2.0
#include "evaluators/statistics/quantiles.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <vector>

using namespace cultivar;

BOOST_AUTO_TEST_SUITE(location)

BOOST_AUTO_TEST_CASE(the_geometric_mean_of_a_ratio_and_its_inverse_is_one) {
  BOOST_TEST(geometric_mean(std::vector<double>{4.0, 0.25}) == 1.0, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(geometric_mean(std::vector<double>{2.0, 8.0}) == 4.0, boost::test_tools::tolerance(1e-12));
  BOOST_CHECK_THROW(geometric_mean(std::vector<double>{1.0, 0.0}), std::invalid_argument);
  BOOST_CHECK_THROW(geometric_mean({}), std::invalid_argument);
}

BOOST_AUTO_TEST_CASE(the_robust_location_of_a_symmetric_sample_is_its_centre) {
  BOOST_TEST(robust_location(std::vector<double>{1.0, 2.0, 3.0, 4.0, 5.0}) == 3.0,
             boost::test_tools::tolerance(1e-9));
  BOOST_TEST(robust_location(std::vector<double>{2.0}) == 2.0);
  BOOST_TEST(robust_location(std::vector<double>{2.0, 2.0, 2.0, 9.0}) == 2.0);
}

BOOST_AUTO_TEST_CASE(one_wild_value_moves_the_robust_location_by_less_than_a_deviation) {
  std::vector<double> values;
  for (int i = -10; i <= 10; ++i) values.push_back(i);
  const double deviation = robust_deviation(values);
  values.push_back(1e9);
  BOOST_TEST(std::fabs(robust_location(values)) < deviation);
  BOOST_TEST(robust_deviation(values) < 1.2 * deviation);
}

BOOST_AUTO_TEST_CASE(the_robust_deviation_follows_the_scale_of_the_sample) {
  const std::vector<double> narrow = {1.0, 2.0, 3.0, 4.0, 5.0}, wide = {10.0, 20.0, 30.0, 40.0, 50.0};
  BOOST_TEST(robust_deviation(narrow) == 1.4826, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(robust_deviation(wide) == 14.826, boost::test_tools::tolerance(1e-12));
}

BOOST_AUTO_TEST_SUITE_END()
