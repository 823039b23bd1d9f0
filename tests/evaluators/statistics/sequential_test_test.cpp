// SPDX-License-Identifier: Apache-2.0
#include "evaluators/statistics/sequential_test.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <vector>

using namespace cultivar;

namespace {

using Draw = std::function<double(std::mt19937_64&)>;

double uniform(std::mt19937_64& random) {
  return (static_cast<double>(random() >> 11) + 0.5) * 0x1.0p-53;
}
double cauchy(std::mt19937_64& random) {
  return std::tan(3.14159265358979 * (uniform(random) - 0.5));
}
double coin(std::mt19937_64& random) {
  return uniform(random) < 0.5 ? -1.0 : 1.0;
}

// The share of trials in which the test ever claims that the centre is above `bound`, looked at after every
// row.
double shown(const Draw& draw, double centre, double bound, double alpha, int trials, int rows,
             std::size_t columns = 1) {
  int claims = 0;
  for (int trial = 0; trial < trials; ++trial) {
    std::mt19937_64 random(1000 + static_cast<std::uint64_t>(trial));
    SymmetricSeries series(columns);
    SequentialTest test(Claim::above, bound, alpha);
    std::vector<double> row(columns);
    for (int i = 0; i < rows && !test.shown(); ++i) {
      for (double& value : row) value = centre + draw(random);
      test.bet(series, row);
      series.add(row);
    }
    claims += test.shown();
  }
  return static_cast<double>(claims) / trials;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(sequential_test)

// 2,000 trials at alpha = 5 %: one standard error is 0.5 %.
BOOST_AUTO_TEST_CASE(looking_after_every_value_does_not_raise_the_error) {
  BOOST_TEST(shown([](auto& r) { return uniform(r) - 0.5; }, 0.0, 0.0, 0.05, 2000, 300) <= 0.06);
}

BOOST_AUTO_TEST_CASE(noise_without_a_mean_or_variance_does_not_raise_the_error) {
  BOOST_TEST(shown(cauchy, 0.0, 0.0, 0.05, 2000, 300) <= 0.06);
}

BOOST_AUTO_TEST_CASE(noise_of_two_values_and_a_centre_below_the_bound_does_not_raise_the_error) {
  BOOST_TEST(shown(coin, 0.0, 0.0, 0.05, 2000, 300) <= 0.06);
  BOOST_TEST(shown(coin, -0.6, 0.0, 0.05, 2000, 300) <= 0.06);
}

BOOST_AUTO_TEST_CASE(noise_whose_width_grows_hundredfold_does_not_raise_the_error) {
  double width = 0.0;
  const Draw growing = [&width](auto& r) {
    width = width > 99.0 ? 1.0 : width + 1.0;
    return width * (uniform(r) - 0.5);
  };
  BOOST_TEST(shown(growing, 0.0, 0.0, 0.05, 2000, 300) <= 0.06);
}

BOOST_AUTO_TEST_CASE(many_columns_with_heavy_tails_do_not_raise_the_error) {
  BOOST_TEST(shown(cauchy, 0.0, 0.0, 0.05, 1000, 200, 6) <= 0.065);
}

BOOST_AUTO_TEST_CASE(an_effect_of_half_a_deviation_is_found_within_150_values) {
  BOOST_TEST(shown([](auto& r) { return uniform(r) - 0.5; }, 0.5 * 0.2887, 0.0, 0.01, 500, 150) >= 0.95);
  BOOST_TEST(shown(cauchy, 1.0, 0.0, 0.01, 500, 150) >= 0.95);
}

BOOST_AUTO_TEST_CASE(a_single_wild_value_shows_nothing_and_refutes_nothing) {
  SymmetricSeries series;
  SequentialTest test(Claim::above, 0.0, 0.01);
  std::mt19937_64 random(5);
  for (int i = 0; i < 20; ++i) {
    const double value = i == 10 ? 1e12 : 0.001 * (uniform(random) - 0.5);
    test.bet(series, std::span(&value, 1));
    series.add(std::span(&value, 1));
  }
  BOOST_TEST(!test.shown());
  BOOST_TEST(test.evidence() < 10.0);
  BOOST_TEST(std::fabs(series.centre()) < 0.001);
}

BOOST_AUTO_TEST_CASE(the_bounds_are_where_the_tests_turn) {
  SymmetricSeries series;
  std::mt19937_64 random(6);
  std::vector<double> values;
  for (int i = 0; i < 80; ++i) values.push_back(3.0 + uniform(random));
  for (const double& value : values) series.add(std::span(&value, 1));
  const double lower = series.lower_bound(0.05), upper = series.upper_bound(0.05);
  BOOST_TEST(lower < series.centre());
  BOOST_TEST(upper > series.centre());
  BOOST_TEST(upper - lower < 0.5);
  const auto claims = [&](Claim claim, double bound) {
    SymmetricSeries replay;
    SequentialTest test(claim, bound, 0.05);
    for (const double& value : values) {
      test.bet(replay, std::span(&value, 1));
      replay.add(std::span(&value, 1));
    }
    return test.shown();
  };
  BOOST_TEST(claims(Claim::above, lower - 1e-6));
  BOOST_TEST(!claims(Claim::above, lower + 1e-6));
  BOOST_TEST(claims(Claim::below, upper + 1e-6));
  BOOST_TEST(!claims(Claim::below, upper - 1e-6));
}

BOOST_AUTO_TEST_CASE(bounds_are_infinite_until_there_is_enough_to_refute_anything) {
  SymmetricSeries series;
  BOOST_TEST(series.lower_bound(0.05) == -std::numeric_limits<double>::infinity());
  for (const double& value : {1.0, 1.1, 0.9, 1.0}) series.add(std::span(&value, 1));
  BOOST_TEST(series.upper_bound(0.05) == std::numeric_limits<double>::infinity());
}

BOOST_AUTO_TEST_CASE(rows_of_another_width_and_impossible_levels_are_refused) {
  SymmetricSeries series(2);
  const std::vector<double> three = {1.0, 2.0, 3.0};
  BOOST_CHECK_THROW(series.add(three), std::invalid_argument);
  BOOST_CHECK_THROW(SymmetricSeries(0), std::invalid_argument);
  BOOST_CHECK_THROW(SequentialTest(Claim::above, 0.0, 0.0), std::invalid_argument);
  BOOST_CHECK_THROW(SequentialTest(Claim::above, std::nan(""), 0.1), std::invalid_argument);
}

BOOST_AUTO_TEST_SUITE_END()
