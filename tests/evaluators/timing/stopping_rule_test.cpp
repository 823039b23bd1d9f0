// SPDX-License-Identifier: Apache-2.0
#include "evaluators/judge/sampler.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>
#include <random>

using namespace cultivar;

namespace {

// Times around 1 ms whose relative deviation is `noise`; returns how it ended.
StoppingRule run(StoppingOptions options, double noise, std::uint64_t seed = 1) {
  std::mt19937_64 random(seed);
  StoppingRule rule(options);
  while (!rule.done()) {
    const double u = static_cast<double>(random() >> 11) * 0x1.0p-53;
    rule.add(1e-3 * (1.0 + noise * std::sqrt(12.0) * (u - 0.5)));
  }
  return rule;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(stopping_rule)

BOOST_AUTO_TEST_CASE(quiet_times_stop_at_the_minimum) {
  const StoppingRule rule = run({}, 0.0005);
  BOOST_TEST((rule.reason() == SamplingEnd::precise));
  BOOST_TEST(rule.samples() == 20);
  BOOST_TEST(rule.mean() == 1e-3, boost::test_tools::tolerance(0.001));
}

BOOST_AUTO_TEST_CASE(noisier_times_are_sampled_until_the_mean_is_known_to_a_thousandth) {
  StoppingOptions options;
  options.max_samples = 10'000;
  options.min_noise_samples = options.noise_window = 9'000;  // never stable
  const StoppingRule rule = run(options, 0.02);
  BOOST_TEST((rule.reason() == SamplingEnd::precise));
  BOOST_TEST(rule.relative_error() <= 0.001);
  BOOST_TEST(rule.samples() > 300);  // (0.02 / 0.001)^2 = 400, roughly
  BOOST_TEST(rule.samples() < 500);
}

BOOST_AUTO_TEST_CASE(noise_that_will_never_be_small_stops_when_it_is_stable) {
  StoppingOptions options;
  options.max_samples = 100'000;
  const StoppingRule rule = run(options, 0.2);
  BOOST_TEST((rule.reason() == SamplingEnd::noise_stable));
  BOOST_TEST(rule.samples() >= 64);
  BOOST_TEST(rule.samples() < 2000);
}

BOOST_AUTO_TEST_CASE(the_caps_stop_it_when_nothing_else_does) {
  StoppingOptions options;
  options.max_samples = 30;
  const StoppingRule by_count = run(options, 0.2);
  BOOST_TEST((by_count.reason() == SamplingEnd::samples_spent));
  BOOST_TEST(by_count.samples() == 30);
  options.max_samples = 100'000;
  options.max_seconds = 0.0105;
  const StoppingRule by_time = run(options, 0.001);
  BOOST_TEST((by_time.reason() == SamplingEnd::seconds_spent));
  BOOST_TEST(by_time.samples() == 11);
}

BOOST_AUTO_TEST_CASE(impossible_times_and_options_are_refused) {
  StoppingRule rule;
  BOOST_CHECK_THROW(rule.add(0.0), std::invalid_argument);
  BOOST_CHECK_THROW(rule.add(std::numeric_limits<double>::infinity()), std::invalid_argument);
  BOOST_CHECK_THROW(rule.add(std::nan("")), std::invalid_argument);
  StoppingOptions options;
  options.max_samples = 1;
  BOOST_CHECK_THROW(StoppingRule{options}, std::invalid_argument);
}

BOOST_AUTO_TEST_SUITE_END()
