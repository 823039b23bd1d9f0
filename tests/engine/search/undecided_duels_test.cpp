// SPDX-License-Identifier: Apache-2.0
// When a larger limit of the gate is advised, and which.
#include "engine/search/comparisons.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>

#include "support/contains.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace {

// Undecided, with bounds that far from the ratio.
Decision wide(double width, double seconds = 10.0) {
  Decision d;
  d.device_seconds = seconds;
  d.log_ratio = 0.01;
  d.lower = d.log_ratio - width;
  return d;
}

std::string advice_after(int duels, const Decision& decision) {
  UndecidedDuels undecided;
  for (int i = 0; i < duels; ++i) undecided.ended(decision, {});
  return undecided.advice(GateOptions{}.max_device_seconds, "runs/my run");
}

}  // namespace

BOOST_AUTO_TEST_SUITE(undecided_duels)

BOOST_AUTO_TEST_CASE(five_in_a_row_advise_the_time_in_which_an_effect_of_5_percent_is_decided) {
  const double effect = std::log(1.05) - std::log(1.005);
  BOOST_TEST(advice_after(4, wide(2.0 * effect)).empty());
  const std::string advice = advice_after(5, wide(1.9 * effect));  // 3.61 times as long
  BOOST_TEST(contains(advice, "the last 5 duels ended undecided within gate.max_device_seconds (10 s)"),
             advice);
  BOOST_TEST(contains(advice, "needs about 36 s"), advice);
  BOOST_TEST(contains(advice, "`cultivar resume 'runs/my run' --set gate.max_device_seconds=40s`"), advice);
}

BOOST_AUTO_TEST_CASE(small_effects_and_hopeless_noise_are_told_apart) {
  const double effect = std::log(1.05) - std::log(1.005);
  BOOST_TEST(advice_after(9, wide(effect)).empty());  // 5 % would have been decided
  const std::string hopeless = advice_after(5, wide(20.0 * effect));
  BOOST_TEST(contains(hopeless, "look for other work"), hopeless);
  BOOST_TEST(!contains(hopeless, "--set"), hopeless);
}

BOOST_AUTO_TEST_CASE(the_noisiest_workload_counts_and_no_bounds_mean_four_times_as_long) {
  const GateOptions options;
  Decision decision = wide(0.001);
  decision.workloads = {{"a", 0.0, -0.01, 0.01}, {"b", 0.0, -2.0 * (std::log(1.05) - std::log(0.98)), 0.1}};
  BOOST_TEST(needed_seconds(decision, options, 0.05) == 40.0, boost::test_tools::tolerance(1e-9));
  decision.lower = -INFINITY;
  BOOST_TEST(needed_seconds(decision, options, 0.05) == 40.0, boost::test_tools::tolerance(1e-9));
}

BOOST_AUTO_TEST_CASE(a_duel_that_its_noise_ended_early_counts_as_one_that_the_limit_ended) {
  const std::string advice = advice_after(5, wide(0.2, 3.0));
  BOOST_TEST(contains(advice, "needs about 63 s"), advice);
}

BOOST_AUTO_TEST_CASE(a_duel_that_decided_or_ended_before_the_limit_begins_the_count_anew) {
  const Decision noisy = wide(0.2);
  Decision decided = noisy;
  decided.verdict = Verdict::worse;
  const Decision early = wide(0.05, 3.0);  // 5 % would take 4 s
  for (const Decision& other : {decided, early}) {
    UndecidedDuels undecided;
    for (int i = 0; i < 4; ++i) undecided.ended(noisy, {});
    undecided.ended(other, {});
    for (int i = 0; i < 4; ++i) undecided.ended(noisy, {});
    BOOST_TEST(undecided.advice(10.0, "r").empty());
    undecided.ended(noisy, {});
    BOOST_TEST(!undecided.advice(10.0, "r").empty());
  }
}

BOOST_AUTO_TEST_SUITE_END()
