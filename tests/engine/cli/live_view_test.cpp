// SPDX-License-Identifier: Apache-2.0
// What a terminal shows of a search, in 80 columns and in any locale.
#include "engine/cli/progress_line.hpp"

#include <boost/test/unit_test.hpp>

#include "engine/cli/output.hpp"
#include "engine/cli/record_views.hpp"

using namespace cultivar;

namespace {

Progress busy() {
  Progress p;
  p.elapsed_s = 1200, p.evaluations = 340, p.measured = 260,
  p.rejected = {{Stage::compile, 50}, {Stage::smoke, 30}};
  p.best = 217, p.best_fitness = 61.234, p.unit = "GFLOPS", p.to_seed = SeedRatio{4.2, true},
  p.promoted_s = 900;
  p.evaluations_per_hour = 1020, p.wall_limit_s = 3600, p.evaluation_limit = 1000, p.device_s = 800,
  p.seconds_left = 2400;
  p.in_flight = {{341, "tune", InFlight::Doing::compiling},
                 {342, "tune", InFlight::Doing::evaluating},
                 {339, "mutate", InFlight::Doing::duel, 217, "14 of at most 2000 pairs"}};
  p.step =
      "a step with a name of n\u00f6t only ASCII and so many words that they do not fit into the eighty "
      "columns of a terminal";
  return p;
}

bool ascii(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

}  // namespace

BOOST_AUTO_TEST_SUITE(live_view)

BOOST_AUTO_TEST_CASE(everything_fits_into_eighty_columns_and_breaks_between_words) {
  const BestsSoFar bests{{10, 14.5}, {300, 40.0}, {900, 61.234}};
  for (const bool utf8 : {true, false})
    for (const std::size_t width : {79U, 199U}) {
      const auto lines = drawn(live_view_of(busy(), bests), width, utf8);
      std::string all;
      for (const std::string& line : lines) {
        BOOST_TEST(columns_of(line) <= width, line);
        all += line + "\n";
      }
      BOOST_TEST(ascii(all) == !utf8);
      for (const char* words : {"61.23 GFLOPS (#217), confirmed 4.20x first seed, 5 min ago",
                                "340, 1020/h, 260 measured, 80 rejected (compile 50, smoke 30)",
                                "#339 in its duel with #217 (14 of at most 2000 pairs)", "20 min of 1 h",
                                "340 of 1000", "about 40 min"})
        BOOST_TEST(all.find(words) != std::string::npos, std::string(words) + "\n" + all);
      if (width == 79U) BOOST_TEST(all.find(" ...\n") != std::string::npos, all);
    }
}

BOOST_AUTO_TEST_CASE(a_sparkline_rises_with_the_best) {
  const BestsSoFar bests{{0, 1.0}, {50, 2.0}, {100, 4.0}};
  BOOST_TEST(sparkline(bests, 100, 4, false) == "_==#");
  BOOST_TEST(columns_of(sparkline(bests, 200, 40, true)) == 40U);
  BOOST_TEST(sparkline({{80, 3.0}}, 100, 5, false) == "   ##");
  BOOST_TEST(sparkline({}, 100, 5, false).empty());
}

BOOST_AUTO_TEST_CASE(a_search_that_ends_says_within_what_time_and_names_its_device) {
  Progress p = busy();
  p.closing = "the wall-clock budget of 1 h is exhausted", p.closing_left_s = 42.0;
  p.workers = {{"AMD EPYC, 2 cores", 2, true}, {"another", 1, false}};
  std::string all;
  for (const std::string& line : drawn(live_view_of(p, {}), 119, false)) all += line + "\n";
  BOOST_TEST(all.find("state       ending in 42 s at most: the wall-clock budget of 1 h is exhausted\n") !=
                 std::string::npos,
             all);
  BOOST_TEST(all.find("device      2 x AMD EPYC, 2 cores\n") != std::string::npos, all);
  BOOST_TEST(all.find("another") == std::string::npos, all);
}

BOOST_AUTO_TEST_CASE(nothing_is_in_flight_only_where_nothing_else_goes_on) {
  Summary s;
  s.state = "running", s.step = "#2 is being confirmed: step 3 of 11 (8 s)";
  const auto shown = [&] {
    std::string all;
    for (const std::string& line : drawn(live_view_of(s, {}), 119, false)) all += line + "\n";
    return all;
  };
  BOOST_TEST(shown().find("nothing in flight") == std::string::npos, shown());
  s.step.clear();
  BOOST_TEST(shown().find("now         nothing in flight\n") != std::string::npos, shown());
}

BOOST_AUTO_TEST_CASE(device_time_that_a_record_lacks_is_not_shown_as_none) {
  Summary s;
  s.budget["device_hours"] = {0.0, 10.0};
  BOOST_TEST(used_text(s, "device_hours") == "0 s");  // nothing was measured yet
  s.measured = 1;
  BOOST_TEST(used_text(s, "device_hours") == "not recorded");
  s.budget["device_hours"].used = 0.25;
  BOOST_TEST(used_text(s, "device_hours") == "15 min");
}

BOOST_AUTO_TEST_SUITE_END()
