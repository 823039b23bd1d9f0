// SPDX-License-Identifier: Apache-2.0

#include <boost/test/unit_test.hpp>
#include <random>
#include <vector>

#include "evaluators/statistics/quantiles.hpp"

using namespace cultivar;

namespace {

std::vector<double> uniform_sample(std::mt19937_64& random, int size) {
  std::vector<double> values;
  for (int i = 0; i < size; ++i) values.push_back(static_cast<double>(random() >> 11) * 0x1.0p-53);
  return values;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(bootstrap)

BOOST_AUTO_TEST_CASE(the_interval_holds_the_true_median_about_as_often_as_it_says) {
  std::mt19937_64 random(1);
  int held = 0;
  for (int trial = 0; trial < 300; ++trial) {
    const Interval interval = bootstrap_interval(uniform_sample(random, 41), median, 0.95, trial, 400);
    held += interval.lower <= 0.5 && 0.5 <= interval.upper;
  }
  BOOST_TEST(held >= 270);  // 90 %
  BOOST_TEST(held < 300);
}

BOOST_AUTO_TEST_CASE(one_seed_gives_one_interval) {
  std::mt19937_64 random(2);
  const std::vector<double> values = uniform_sample(random, 30);
  const Interval first = bootstrap_interval(values, median, 0.9, 7);
  BOOST_TEST((bootstrap_interval(values, median, 0.9, 7) == first));
  BOOST_TEST(!(bootstrap_interval(values, median, 0.9, 8) == first));
  BOOST_TEST(first.lower < first.upper);
}

BOOST_AUTO_TEST_CASE(the_ratio_of_medians_lies_inside_its_interval) {
  std::mt19937_64 random(3);
  std::vector<double> slow = uniform_sample(random, 50), fast = uniform_sample(random, 50);
  for (double& value : slow) value = 2.0 + 0.1 * value;
  for (double& value : fast) value = 1.0 + 0.1 * value;
  const Interval interval = bootstrap_ratio_of_medians(slow, fast, 0.95, 1);
  const double ratio = median(slow) / median(fast);
  BOOST_TEST(interval.lower <= ratio);
  BOOST_TEST(interval.upper >= ratio);
  BOOST_TEST(interval.upper - interval.lower < 0.2);
}

BOOST_AUTO_TEST_CASE(empty_samples_and_impossible_confidence_are_refused) {
  const std::vector<double> none, some = {1.0, 2.0};
  BOOST_CHECK_THROW(bootstrap_interval(none, median, 0.95, 1), std::invalid_argument);
  BOOST_CHECK_THROW(bootstrap_interval(some, median, 1.0, 1), std::invalid_argument);
  BOOST_CHECK_THROW(bootstrap_ratio_of_medians(some, none, 0.95, 1), std::invalid_argument);
}

BOOST_AUTO_TEST_SUITE_END()
