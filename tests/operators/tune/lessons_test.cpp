// SPDX-License-Identifier: Apache-2.0
// What is learned of points that fail, and of points that give a known kernel.
#include "operators/tune/lessons.hpp"

#include <boost/test/unit_test.hpp>

using cultivar::Knob;
using cultivar::KnownKernels;
using cultivar::Lessons;
using cultivar::Point;
using cultivar::Refusals;
using cultivar::Space;

namespace {

Space space() {
  return {{Knob{"a", {1, 2, 4, 8}}, Knob{"b", {1, 2, 4, 8}}, Knob{"c", {0, 1}}}, {}};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(lessons)

BOOST_AUTO_TEST_CASE(a_duplicate_shows_which_values_are_the_same) {
  KnownKernels known(space());
  known.add({0, 0, 0}, true, {});
  BOOST_TEST(known.contains(Point{0, 0, 0}));
  BOOST_TEST(!known.contains(Point{0, 1, 0}));
  known.add({0, 1, 0}, true, Point{0, 0, 0});
  known.add({3, 0, 1}, true, {});
  BOOST_TEST(known.contains(Point{3, 1, 1}));   // b 1 and 2 are the same
  BOOST_TEST(!known.contains(Point{3, 2, 1}));  // of 4 nothing is known
  BOOST_TEST(!known.contains(Point{2, 1, 1}));
  BOOST_TEST((known.canonical(Point{2, 1, 1}) == Point{2, 0, 1}));
}

BOOST_AUTO_TEST_CASE(the_first_the_last_and_one_between_them_say_it_of_all_values) {
  KnownKernels known(space());
  known.add({0, 0, 0}, true, {});
  known.add({0, 3, 0}, true, Point{0, 0, 0});
  BOOST_TEST(!known.contains(Point{0, 2, 0}));
  known.add({0, 1, 0}, true, Point{0, 0, 0});
  BOOST_TEST(known.contains(Point{0, 2, 0}));
}

BOOST_AUTO_TEST_CASE(of_a_knob_that_depends_on_others_nothing_is_learned_any_more) {
  KnownKernels known(space());
  known.add({0, 0, 0}, true, {});
  known.add({0, 1, 0}, true, Point{0, 0, 0});
  known.add({3, 0, 1}, true, {});
  known.add({3, 1, 1}, true, {});  // where a is 8, b matters
  BOOST_TEST(!known.contains(Point{2, 1, 0}));
  BOOST_TEST((known.canonical(Point{2, 1, 0}) == Point{2, 1, 0}));
  known.add({1, 0, 0}, true, {});
  known.add({1, 1, 0}, true, Point{1, 0, 0});
  BOOST_TEST((known.canonical(Point{2, 1, 0}) == Point{2, 1, 0}));
}

BOOST_AUTO_TEST_CASE(a_pair_of_values_that_always_failed_is_expected_to_fail_once_chance_is_unlikely) {
  Refusals refusals(space());
  int added = 0;
  const auto add = [&](const Point& point) {
    refusals.add(point, !(point[0] == 3 && point[1] >= 2)), ++added;
  };
  for (int a = 0; a < 4; ++a)
    for (int b = 0; b < 4; ++b)
      if (a != 3 || b < 2) add({a, b, 0});
  BOOST_TEST(!refusals.expects(Point{3, 3, 0}));
  for (int c = 0; c < 2; ++c) add({3, 3, c});
  BOOST_TEST(!refusals.expects(Point{3, 3, 1}));  // twice may be by chance
  for (int i = 0; i < 2; ++i) add({3, 3, i});
  BOOST_TEST(refusals.expects(Point{3, 3, 1}));
  BOOST_TEST(!refusals.expects(Point{3, 1, 1}));
  BOOST_TEST(!refusals.expects(Point{2, 3, 1}));
}

BOOST_AUTO_TEST_CASE(points_that_fail_as_often_as_not_show_nothing_by_a_few_failures) {
  Refusals refusals(space());
  for (int i = 0; i < 40; ++i) refusals.add(Point{i % 3, i / 3 % 3, i % 2}, i % 2 == 0 || i % 3 == 0);
  for (int i = 0; i < 4; ++i) refusals.add(Point{3, 3, 1}, false);
  BOOST_TEST(!refusals.expects(Point{3, 3, 0}));
}

BOOST_AUTO_TEST_CASE(lessons_avoid_both) {
  Lessons lessons(space());
  lessons.add({0, 0, 0}, true, {});
  lessons.add({0, 1, 0}, true, Point{0, 0, 0});
  BOOST_TEST(lessons.avoids({0, 0, 0}));
  BOOST_TEST(!lessons.avoids({1, 1, 0}));
}

BOOST_AUTO_TEST_SUITE_END()
