// SPDX-License-Identifier: Apache-2.0
#include "engine/suite/suite_ranking.hpp"

#include <boost/test/unit_test.hpp>

using namespace cultivar;

namespace {

const RegionTime kRegion{.ms = 10.0, .alone_ms = 10.0, .floor_ms = 4.0};

PromotionRow promotion(double elapsed_s, double fitness) {
  PromotionRow row;
  row.elapsed_s = elapsed_s;
  row.fitness = fitness;
  return row;
}

RankedTask searched(const char* name, double per_hour, double left_ms, double searched_s = 100.0) {
  RankedTask task;
  task.name = name;
  task.searched_s = searched_s;
  task.gain_per_h = per_hour;
  task.left_ms = left_ms;
  return task;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(suite_ranking)

BOOST_AUTO_TEST_CASE(a_kernel_gains_what_it_is_faster_than_pytorch_and_never_more_than_the_machine_leaves) {
  const auto tolerance = boost::test_tools::tolerance(1e-9);
  const RankedTask twice = ranked("a", kRegion, 100.0, 2.0, {promotion(80.0, 1.0)});
  BOOST_TEST(twice.gain_ms == 5.0, tolerance);
  BOOST_TEST(twice.left_ms == 1.0, tolerance);
  const RankedTask beyond = ranked("a", kRegion, 100.0, 50.0, {promotion(80.0, 1.0)});
  BOOST_TEST(beyond.gain_ms == 6.0, tolerance);
  BOOST_TEST(beyond.left_ms == 0.0, tolerance);
  // Fused with what is around it, it takes less than by itself, which a kernel must make up for.
  const RegionTime fused{.ms = 6.0, .alone_ms = 10.0, .floor_ms = 4.0};
  BOOST_TEST(ranked("a", fused, 100.0, 2.0, {promotion(80.0, 1.0)}).gain_ms == 1.0, tolerance);
  BOOST_TEST(ranked("a", fused, 100.0, 1.5, {promotion(80.0, 1.0)}).gain_ms == 0.0);
  const RankedTask slower = ranked("a", kRegion, 100.0, 0.5, {promotion(80.0, 1.0)});
  BOOST_TEST(slower.gain_ms == 0.0);
  BOOST_TEST(slower.left_ms == 6.0, tolerance);
}

BOOST_AUTO_TEST_CASE(only_what_the_later_half_of_the_search_gained_counts_for_the_hour) {
  const auto tolerance = boost::test_tools::tolerance(1e-9);
  // 5 ms in the later 50 s.
  BOOST_TEST(ranked("a", kRegion, 100.0, 2.0, {promotion(80.0, 1.0)}).gain_per_h == 5.0 / 50.0 * 3600.0,
             tolerance);
  BOOST_TEST(ranked("a", kRegion, 100.0, 2.0, {promotion(20.0, 1.0)}).gain_per_h == 0.0);
  // At 50 s the best was 1.25 x as fast as PyTorch (2 ms), because it had 0.625 of the fitness.
  BOOST_TEST(ranked("a", kRegion, 100.0, 2.0, {promotion(20.0, 0.625), promotion(80.0, 1.0)}).gain_per_h ==
                 3.0 / 50.0 * 3600.0,
             tolerance);
}

BOOST_AUTO_TEST_CASE(the_search_goes_where_most_is_gained_in_an_hour_and_back_when_that_stalls) {
  const auto next = [](const std::vector<RankedTask>& tasks) { return tasks[next_of(tasks).value()].name; };
  // Each is tried once, the greatest possible gain first.
  BOOST_TEST(next({searched("a", 90.0, 1.0), searched("b", 0.0, 2.0, 0.0), searched("c", 0.0, 3.0, 0.0)}) ==
             "c");
  BOOST_TEST(next({searched("a", 1.0, 9.0), searched("b", 2.0, 1.0), searched("c", 0.0, 30.0)}) == "b");
  // None gained anything: the one with the most left for its time.
  BOOST_TEST(next({searched("a", 0.0, 9.0, 100.0), searched("b", 0.0, 8.0, 50.0)}) == "b");
  std::vector<RankedTask> ended{searched("a", 5.0, 9.0), searched("b", 1.0, 1.0)};
  ended[0].can_go_on = false;
  BOOST_TEST(next(ended) == "b");
  ended[1].can_go_on = false;
  BOOST_TEST(!next_of(ended).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
