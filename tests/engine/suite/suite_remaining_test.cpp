// SPDX-License-Identifier: Apache-2.0
#include "engine/suite/suite_run.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>

using namespace cultivar;

namespace {

// Of a search with a wall budget of 60 s.
Progress at(double elapsed_s) {
  Progress progress;
  progress.elapsed_s = elapsed_s;
  progress.wall_limit_s = 60.0;
  progress.seconds_left = std::max(0.0, 60.0 - elapsed_s);
  if (elapsed_s >= 60.0) progress.closing = "the budget is exhausted";
  return progress;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(suite_remaining)

BOOST_AUTO_TEST_CASE(the_estimate_moves_on_during_the_search_and_its_confirmation) {
  SuiteRemaining remaining(180.0, 3);
  remaining.begins(60.0);
  double before = remaining.seconds(at(0.0));
  BOOST_TEST(before > 180.0);  // with the confirmations
  for (double now = 10.0; now <= 80.0; now += 10.0) {
    const double next = remaining.seconds(at(now));
    BOOST_TEST(next < before, now);
    before = next;
  }
}

BOOST_AUTO_TEST_CASE(confirmations_that_have_ended_tell_how_long_the_next_ones_take) {
  SuiteRemaining remaining(180.0, 3);
  remaining.begins(60.0);
  const double usual = remaining.seconds(at(0.0)) / 3 - 60.0;
  BOOST_TEST(remaining.seconds(at(160.0)) == 2 * (60.0 + 100.0));  // unusually long
  remaining.ended();
  remaining.begins(60.0);
  const double next = (usual + 100.0) / 2;
  BOOST_TEST(remaining.seconds(at(0.0)) == 2 * (60.0 + next));
  BOOST_TEST(remaining.seconds(at(70.0)) == 60.0 + 2 * next - 10.0);
  remaining.skips(60.0);
  BOOST_TEST(remaining.seconds(at(70.0)) == next - 10.0);
}

BOOST_AUTO_TEST_CASE(a_search_that_ends_before_its_wall_budget_no_longer_counts_it) {
  SuiteRemaining remaining(120.0, 2);
  remaining.begins(60.0);
  Progress early = at(20.0);
  early.closing = "no gain for 10 s";
  BOOST_TEST(remaining.seconds(early) < 60.0 + 2 * 60.0 - 40.0);
}

BOOST_AUTO_TEST_SUITE_END()
