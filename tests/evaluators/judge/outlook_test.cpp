// SPDX-License-Identifier: Apache-2.0
// What a duel's noise says of the device time that it needs.

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <random>

#include "evaluators/judge/duel.hpp"

using namespace cultivar;

namespace {

struct Course {
  Decision decision;
  DuelOutlook outlook;
};

// Blocks of 0.1 s each, of a challenger that is faster by `gain`; times are off by a factor of up to
// exp(noise).
Course after(int blocks, double gain, double noise, GateOptions options = {}) {
  options.max_device_seconds = 10.0;
  Gate gate({"w"}, options, 1);
  Course course{{}, DuelOutlook(options)};
  std::mt19937_64 random(5);
  std::uniform_real_distribution<double> off(-noise, noise);
  for (int block = 0; block < blocks && !gate.done(); ++block) {
    std::vector<double> seconds;
    for (const Slot& slot : gate.next_order())
      seconds.push_back(1e-3 * std::exp(off(random)) / (slot.side == Side::challenger ? 1.0 + gain : 1.0));
    gate.add(seconds, 0.1);
  }
  course.decision = gate.decision();
  course.outlook.see(course.decision);
  return course;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(outlook)

BOOST_AUTO_TEST_CASE(nothing_is_said_before_there_are_bounds_nor_of_noise_that_the_limit_suffices_for) {
  BOOST_TEST(after(4, 0.0, 1.0).outlook.needed_s() == 0.0);
  const Course quiet = after(60, 0.01, 0.02);
  BOOST_TEST(std::isfinite(quiet.decision.lower));
  BOOST_TEST(quiet.outlook.needed_s() == 0.0);
  BOOST_TEST(!quiet.outlook.hopeless());
}

BOOST_AUTO_TEST_CASE(noise_that_needs_more_than_the_limit_is_told_and_far_more_is_hopeless) {
  const Course some = after(60, 0.0, 0.2), much = after(60, 0.0, 1.5);
  BOOST_TEST((some.decision.verdict == Verdict::undecided));
  BOOST_TEST(some.outlook.needed_s() > 10.0);
  BOOST_TEST(!some.outlook.hopeless());
  BOOST_TEST(much.outlook.needed_s() > 40.0);
  BOOST_TEST(much.outlook.hopeless());
}

BOOST_AUTO_TEST_CASE(a_large_effect_is_not_hopeless_at_the_noise_that_hides_a_small_one) {
  Course large = after(30, 0.0, 1.5);
  BOOST_TEST(large.outlook.hopeless());
  large.decision.log_ratio += 3.0;
  large.decision.lower += 3.0;
  for (WorkloadRatio& w : large.decision.workloads) w.log_ratio += 3.0, w.lower += 3.0;
  large.outlook.see(large.decision);
  BOOST_TEST(!large.outlook.hopeless());
}

BOOST_AUTO_TEST_CASE(a_duel_is_worth_another_part_if_its_gain_at_its_noise_needs_no_more_than_all_parts) {
  GateOptions options;
  options.max_device_seconds = 10.0;
  Decision d;
  d.device_seconds = 10.0;
  d.log_ratio = std::log1p(0.05);
  const double gain = d.log_ratio - std::log1p(options.min_gain);
  d.lower = d.log_ratio - 1.9 * gain;  // 3.6 times as long
  BOOST_TEST(worth_another_part(d, options));
  d.lower = d.log_ratio - 2.1 * gain;  // 4.4 times
  BOOST_TEST(!worth_another_part(d, options));
  d.lower = -INFINITY;
  BOOST_TEST(!worth_another_part(d, options));
  d.log_ratio = 0.0, d.lower = -0.01;
  BOOST_TEST(!worth_another_part(d, options));
  d = {};
  d.verdict = Verdict::worse;
  BOOST_TEST(!worth_another_part(d, options));
}

BOOST_AUTO_TEST_CASE(the_progress_of_a_duel_tells_its_noise_before_the_time_is_spent) {
  BOOST_TEST(duel_words("24 of at most 2000 pairs", 3.1, 10.0, 62.0) ==
             "24 of at most 2000 pairs, 3.1 of 10 s; at this noise 5 % need about 62 s");
}

BOOST_AUTO_TEST_SUITE_END()
