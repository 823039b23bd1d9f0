// SPDX-License-Identifier: Apache-2.0
#include "operators/tune/observations.hpp"

#include <boost/test/unit_test.hpp>

#include <cmath>

using namespace cultivar;

BOOST_AUTO_TEST_SUITE(observations)

BOOST_AUTO_TEST_CASE(a_point_observed_again_has_its_new_cost) {
  Observations observations(2);
  BOOST_TEST(!observations.contains({1, 2}));
  BOOST_TEST(observations.add({1, 2}, 3.0));
  BOOST_TEST(observations.add({2, 1}, 2.0));
  BOOST_TEST(observations.add({0, 0}, std::nullopt));
  BOOST_TEST(observations.add({4095, 0}, std::nan("")));
  BOOST_TEST(observations.successes() == 2U);
  BOOST_TEST(observations.ordered() == (std::vector<std::uint32_t>{1, 0}));
  BOOST_TEST(!observations.add({1, 2}, 1.0));
  BOOST_TEST(observations.ordered() == (std::vector<std::uint32_t>{0, 1}));
  BOOST_TEST(!observations.add({1, 2}, std::nullopt));
  BOOST_TEST(!observations.add({0, 0}, 5.0));
  BOOST_TEST(observations.ordered() == (std::vector<std::uint32_t>{1, 2}));
  BOOST_TEST(observations.size() == 4U);
  BOOST_TEST((observations.point(3) == Point{4095, 0}));
}

BOOST_AUTO_TEST_CASE(many_points_are_found_again) {
  Observations observations(3);
  const auto point = [](int i) { return Point{i % 16, i / 16 % 16, i / 256}; };
  for (int i = 0; i < 3000; ++i) BOOST_REQUIRE(observations.add(point(i), 1.0 + (i * 7) % 3000));
  for (int i = 0; i < 3000; ++i) BOOST_REQUIRE(observations.contains(point(i)));
  BOOST_TEST(!observations.contains(point(3000)));
  BOOST_TEST(observations.contains(point(99), 100));
  BOOST_TEST(!observations.contains(point(100), 100));
  BOOST_TEST(observations.ordered(100).size() == 100U);
  const Training training = observations.costs(90);
  BOOST_TEST(training.points.size() == 90U);
  BOOST_TEST((training.points.front() == point(0)));
  BOOST_TEST(observations.outcomes(50).y.sum() == 50.0);
}

BOOST_AUTO_TEST_SUITE_END()
