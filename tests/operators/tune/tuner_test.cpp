// SPDX-License-Identifier: Apache-2.0
#include "operators/tune/tuner.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <map>
#include <set>
#include <stdexcept>
#include <vector>

#include "operators/tune/space.hpp"

namespace {

using cultivar::Knob;
using cultivar::Point;
using cultivar::Space;
using cultivar::Tuner;

Knob numbers(const std::string& name, std::vector<double> values) {
  return {name, std::move(values), true};
}

Knob codes(const std::string& name, int count) {
  Knob knob{name, {}, false};
  for (int i = 0; i < count; ++i) knob.values.push_back(i);
  return knob;
}

// Tiles, threads, unrolling and a layout; too many threads are infeasible. 3,072 points, 2,688 feasible.
Space kernel_space() {
  Space space;
  space.knobs = {numbers("x", {8, 16, 32, 64, 96, 128, 192, 256}), numbers("y", {1, 2, 4, 8, 16, 32}),
                 numbers("unroll", {1, 2, 4, 8}), numbers("stages", {1, 2, 3, 4}), codes("layout", 4)};
  space.feasible = [knobs = space.knobs](std::span<const int> p) {
    return knobs[0].values[static_cast<std::size_t>(p[0])] *
               knobs[1].values[static_cast<std::size_t>(p[1])] <=
           2048;
  };
  return space;
}

// Best at x = 64, y = 4, unroll = 4, stages = 3, layout = 2, with cost 1; fails where registers would run
// out.
std::optional<double> kernel_cost(const Point& p) {
  if (p[2] + p[3] >= 5 || (p[1] >= 4 && p[2] >= 2)) return std::nullopt;
  const double threads = p[0] + p[1] - 5.0;
  const double shape = p[0] - 3.0;
  return 1 + 0.2 * threads * threads + 0.1 * shape * shape + 0.3 * std::abs(p[2] - 2) +
         0.2 * std::abs(p[3] - 2) + (p[4] == 2 ? 0.0 : 0.25 + 0.1 * p[4]);
}

double best_after(int evaluations, std::uint64_t seed) {
  Tuner tuner(kernel_space(), seed);
  double best = 1e9;
  for (int e = 0; e < evaluations; ++e) {
    const Point point = tuner.propose().value();
    const auto cost = kernel_cost(point);
    tuner.observe(point, cost);
    best = std::min(best, cost.value_or(1e9));
  }
  return best;
}

double best_at_random(int evaluations, std::uint64_t seed) {
  const Space space = kernel_space();
  const cultivar::Sampler sampler(space);
  cultivar::Random random(seed);
  std::set<Point> seen;
  double best = 1e9;
  while (static_cast<int>(seen.size()) < evaluations) {
    int tries = 1;
    const Point point = sampler.draw(random, tries).value();
    if (seen.insert(point).second) best = std::min(best, kernel_cost(point).value_or(1e9));
  }
  return best;
}

std::vector<Point> trace(Tuner& tuner, int evaluations) {
  std::vector<Point> points;
  for (int e = 0; e < evaluations; ++e) {
    points.push_back(tuner.propose().value());
    tuner.observe(points.back(), kernel_cost(points.back()));
  }
  return points;
}

// Proposes until nothing is left; every proposal must be feasible and new.
std::size_t exhaust(const Space& space, std::optional<double> (*cost)(const Point&)) {
  Tuner tuner(space, 7);
  std::set<Point> seen;
  while (const auto point = tuner.propose()) {
    BOOST_REQUIRE(cultivar::is_feasible(space, *point));
    BOOST_REQUIRE(seen.insert(*point).second);
    tuner.observe(*point, cost(*point));
  }
  return seen.size();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(tuner)

BOOST_AUTO_TEST_CASE(proposals_are_feasible_new_and_not_pending) {
  const Space space = kernel_space();
  Tuner tuner(space, 1);
  std::set<Point> seen;
  for (int round = 0; round < 20; ++round) {
    std::vector<Point> pending;
    for (int i = 0; i < 4; ++i) {
      const auto point = tuner.propose(pending);
      BOOST_REQUIRE(point.has_value());
      BOOST_TEST(cultivar::is_feasible(space, *point));
      BOOST_TEST(seen.insert(*point).second, "a point was proposed twice");
      pending.push_back(*point);
    }
    for (const Point& point : pending) tuner.observe(point, kernel_cost(point));
  }
}

BOOST_AUTO_TEST_CASE(a_small_space_is_exhausted_exactly) {
  Space space;
  space.knobs = {numbers("a", {1, 2, 3, 4, 5}), numbers("b", {1, 2, 4, 8}), codes("c", 3)};
  space.feasible = [](std::span<const int> p) { return p[0] + p[1] <= 5; };
  const auto cost = [](const Point& p) { return p[2] == 1 ? std::nullopt : std::optional(1.0 + p[0]); };
  BOOST_TEST(exhaust(space, cost) == 51U);  // 17 of the 20 pairs, times 3
}

BOOST_AUTO_TEST_CASE(pending_points_count_towards_exhaustion) {
  Space space;
  space.knobs = {numbers("a", {1, 2, 3})};
  Tuner tuner(space, 1);
  tuner.observe({0}, 1.0);
  const std::vector<Point> pending{{1}, {2}};
  BOOST_TEST(!tuner.propose(pending).has_value());
}

BOOST_AUTO_TEST_CASE(the_same_seed_and_observations_give_the_same_proposals) {
  Tuner first(kernel_space(), 5), second(kernel_space(), 5), other(kernel_space(), 6);
  const auto points = trace(first, 40);
  BOOST_TEST(points == trace(second, 40));
  BOOST_TEST(points != trace(other, 40));
}

BOOST_AUTO_TEST_CASE(a_tuner_rebuilt_from_its_observations_continues_the_same_way) {
  Tuner first(kernel_space(), 5), second(kernel_space(), 5);
  for (const Point& point : trace(first, 40)) second.observe(point, kernel_cost(point));
  BOOST_TEST(*first.propose() == *second.propose());
  const std::vector<Point> pending{first.propose().value()};
  BOOST_TEST(*first.propose(pending) == *second.propose(pending));
}

// As kernel_space(), with a knob that only other shapes use; x = 128 and y = 8 together are refused.
struct Refusing {
  std::set<Point> kernels;
  int refused = 0;

  Refusing(bool avoids, int skipped, int proposals, std::uint64_t seed) {
    Space space = kernel_space();
    space.knobs.push_back(numbers("other", {1, 2, 4, 8}));
    cultivar::TunerOptions options;
    options.avoids_refusals = avoids;
    Tuner tuner(std::move(space), seed, options);
    std::map<Point, Point> first;
    for (int i = 0; i < skipped + proposals; ++i) {
      const Point point = tuner.propose().value();
      const Point kernel(point.begin(), point.end() - 1);
      const bool fails = point[0] >= 5 && point[1] >= 2;
      const auto [earlier, fresh] = first.try_emplace(kernel, point);
      std::optional<double> cost;
      if (!fails) cost = 1 + 0.1 * std::abs(point[0] - 5) + 0.1 * std::abs(point[1] - 2) + 0.1 * point[2];
      tuner.observe(point, cost, true, fresh || fails ? std::nullopt : std::optional(earlier->second));
      if (i >= skipped) refused += fails || !fresh;
      kernels.insert(kernel);
    }
  }
};

BOOST_AUTO_TEST_CASE(after_a_hundred_proposals_at_most_one_in_eight_is_refused_or_a_known_kernel) {
  int with = 0, without = 0;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    with += Refusing(true, 100, 60, seed).refused;
    without += Refusing(false, 100, 60, seed).refused;
  }
  BOOST_TEST(with * 8 <= 3 * 60);
  BOOST_TEST(without > 2 * with);
}

BOOST_AUTO_TEST_CASE(rankings_do_not_depend_on_when_a_tuner_was_asked) {
  constexpr int kMany = 330;  // some rankings and one fit beyond the cap of the training
  Tuner first(kernel_space(), 5), second(kernel_space(), 5);
  for (const Point& point : trace(first, kMany)) second.observe(point, kernel_cost(point), false);
  std::vector<Point> pending;
  for (int i = 0; i < 12; ++i) {
    const Point point = first.propose(pending).value();
    BOOST_REQUIRE(point == second.propose(pending).value());
    pending.push_back(point);
  }
}

BOOST_AUTO_TEST_CASE(rankings_leave_no_point_out_and_propose_none_twice) {
  BOOST_TEST(exhaust(kernel_space(), kernel_cost) == 2'688U);
}

BOOST_AUTO_TEST_CASE(rankings_begin_when_the_surrogates_are_trained_with_as_much_as_they_ever_are) {
  cultivar::TunerOptions each;
  each.rankings = false;
  Tuner ranked(kernel_space(), 5), always(kernel_space(), 5, each);
  const auto some = trace(ranked, 240), others = trace(always, 240);
  BOOST_TEST(std::equal(some.begin(), some.begin() + 200, others.begin()));
  BOOST_TEST(some != others);
}

BOOST_AUTO_TEST_CASE(it_beats_random_search_under_constraints_and_failures) {
  double tuned = 0, random = 0;
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    tuned += std::log(best_after(60, seed)) / 6;
    random += std::log(best_at_random(60, seed)) / 6;
  }
  BOOST_TEST(std::exp(tuned) < 1.1);
  BOOST_TEST(tuned < 0.5 * random);
}

BOOST_AUTO_TEST_CASE(it_learns_to_avoid_failures) {
  Tuner tuner(kernel_space(), 3);
  int failures = 0;
  for (int e = 0; e < 90; ++e) {
    const Point point = tuner.propose().value();
    const bool fails = point[4] != 2 && point[3] != 1;  // 56 % of the space
    if (e >= 30) failures += fails;
    const double x = point[0] - 3.0, y = point[1] - 2.0;
    tuner.observe(point,
                  fails ? std::nullopt : std::optional(1 + 0.1 * x * x + 0.07 * y * y + 0.03 * point[2]));
  }
  BOOST_TEST(failures < 15);  // of 60, against 34 at random
}

BOOST_AUTO_TEST_CASE(one_knob_is_enough) {
  Space space;
  space.knobs = {numbers("a", {0, 1, 2, 3, 4, 5, 6, 7, 8, 9})};
  BOOST_TEST(exhaust(space, [](const Point& p) { return std::optional(1.0 + p[0]); }) == 10U);
}

BOOST_AUTO_TEST_CASE(knobs_of_one_value_and_spaces_of_one_point_are_allowed) {
  Space space;
  space.knobs = {numbers("a", {4}), numbers("b", {8})};
  BOOST_TEST(exhaust(space, [](const Point&) { return std::optional(1.0); }) == 1U);
}

BOOST_AUTO_TEST_CASE(a_space_without_feasible_points_has_no_proposals) {
  Space space = kernel_space();
  space.feasible = [](std::span<const int>) { return false; };
  BOOST_TEST(!Tuner(space, 1).propose().has_value());
}

BOOST_AUTO_TEST_CASE(it_continues_when_everything_fails) {
  Space space = kernel_space();
  space.knobs.resize(3);
  space.feasible = nullptr;
  BOOST_TEST(exhaust(space, [](const Point&) { return std::optional<double>(); }) == 192U);
}

BOOST_AUTO_TEST_CASE(it_continues_when_every_cost_is_the_same) {
  Space space = kernel_space();
  space.knobs.resize(3);
  space.feasible = nullptr;
  BOOST_TEST(exhaust(space, [](const Point&) { return std::optional(3.0); }) == 192U);
}

BOOST_AUTO_TEST_CASE(costs_that_are_not_positive_numbers_are_failures) {
  Tuner strange(kernel_space(), 2), failing(kernel_space(), 2);
  const double costs[] = {0, -1, NAN, INFINITY};
  for (int e = 0; e < 30; ++e) {
    const Point point = strange.propose().value();
    BOOST_REQUIRE(point == failing.propose().value());
    const bool odd = e % 2 == 1;
    strange.observe(point, odd ? costs[e / 2 % 4] : 1.0 + e);
    failing.observe(point, odd ? std::nullopt : std::optional(1.0 + e));
  }
}

BOOST_AUTO_TEST_CASE(huge_spaces_are_searched_without_enumeration) {
  Space space;
  for (int k = 0; k < 12; ++k)
    space.knobs.push_back(numbers("k", {1, 2, 3, 4, 6, 8, 12, 16, 24, 32}));  // 10^12
  int calls = 0;
  space.feasible = [&calls](std::span<const int> p) {
    ++calls;
    return (p[0] + p[1] + p[2]) % 3 == 0;
  };
  Tuner tuner(space, 1);
  double best = 1e9, first = 0;
  for (int e = 0; e < 120; ++e) {
    const Point point = tuner.propose().value();
    BOOST_REQUIRE(space.feasible(point));
    double cost = 1;
    for (const int index : point) cost += 0.05 * (index - 6) * (index - 6);
    tuner.observe(point, cost);
    best = std::min(best, cost);
    if (e == 19) first = best;
  }
  BOOST_TEST(best - 1 < 0.35 * (first - 1));
  BOOST_TEST(calls < 120 * 20'000);
}

BOOST_AUTO_TEST_CASE(tight_constraints_are_met_and_the_feasible_points_all_found) {
  // x y z = 2^12 over powers of two and two knobs equal to x: 91 of 1,048,576 points.
  Space space;
  const std::vector<double> powers{1,   2,   4,    8,    16,   32,   64,    128,
                                   256, 512, 1024, 2048, 4096, 8192, 16384, 32768};
  for (int k = 0; k < 5; ++k) space.knobs.push_back(numbers("k", powers));
  space.feasible = [](std::span<const int> p) {
    return p[0] + p[1] + p[2] == 12 && p[3] == p[4] && p[3] == p[0];
  };
  BOOST_TEST(exhaust(space, [](const Point& p) { return std::optional(1.0 + std::abs(p[1] - 5)); }) == 91U);
}

BOOST_AUTO_TEST_CASE(points_of_a_batch_differ_and_spread) {
  Tuner tuner(kernel_space(), 4);
  trace(tuner, 40);
  std::vector<Point> batch;
  for (int i = 0; i < 8; ++i) batch.push_back(tuner.propose(batch).value());
  BOOST_TEST(std::set<Point>(batch.begin(), batch.end()).size() == 8U);
}

BOOST_AUTO_TEST_CASE(a_point_observed_again_replaces_its_cost) {
  Tuner twice(kernel_space(), 8), once(kernel_space(), 8);
  for (int e = 0; e < 25; ++e) {
    const Point point = once.propose().value();
    if (e == 0) twice.observe(point, std::nullopt);
    twice.observe(point, 1.0 + e);
    once.observe(point, 1.0 + e);
  }
  BOOST_TEST(*twice.propose() == *once.propose());
}

BOOST_AUTO_TEST_CASE(points_off_the_grid_are_refused) {
  Tuner tuner(kernel_space(), 1);
  BOOST_CHECK_THROW(tuner.observe({0, 0}, 1.0), std::invalid_argument);
  BOOST_CHECK_THROW(tuner.observe({0, 0, 0, 4, 0}, 1.0), std::invalid_argument);
  const std::vector<Point> pending{{0, 0, 0, 0, -1}};
  BOOST_CHECK_THROW(tuner.propose(pending), std::invalid_argument);
}

BOOST_AUTO_TEST_SUITE_END()
