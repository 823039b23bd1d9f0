// SPDX-License-Identifier: Apache-2.0
// What a terminal shows of a search, in 80 columns and in any locale.
#include "engine/cli/live_view.hpp"

#include <boost/test/unit_test.hpp>

#include "engine/cli/output.hpp"

using namespace cultivar;

namespace {

Progress busy() {
  Progress p;
  p.elapsed_s = 1200, p.evaluations = 340, p.measured = 260,
  p.rejected = {{Stage::compile, 50}, {Stage::smoke, 30}};
  p.best = 217, p.best_fitness = 61.234, p.unit = "GFLOPS", p.ratio_to_seed = 4.2, p.promoted_s = 900;
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
      for (const char* words : {"61.23 GFLOPS (#217, 4.20x seed), 5 min 00 s ago",
                                "340, 1020/h, 260 measured, 80 rejected (compile 50, smoke 30)",
                                "#339 in its duel with #217 (14 of at most 2000 pairs)",
                                "20 min 00 s of 1 h 00 min", "340 of 1000", "about 40 min 00 s"})
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

BOOST_AUTO_TEST_CASE(lines_and_tables_break_at_spaces) {
  BOOST_TEST(wrapped("  key   one two three four", 18, "        ") == "  key   one two\n        three four");
  BOOST_TEST(wrapped("averylongword b", 5, "") == "averylongword\nb");
  BOOST_TEST(between_words("one two three", 11) == "one two ...");
  BOOST_TEST(between_words("one two", 7) == "one two");
  Table table({"name", "reason", "count"});
  table.row({"alpha", "the kernel wrote beyond the end of its output", "12"});
  BOOST_TEST(table.text("", 36) ==
             "name   reason                  count\n"
             "alpha  the kernel wrote           12\n"
             "       beyond the end of its\n"
             "       output\n");
  BOOST_TEST(table.text("", std::string::npos).find("beyond the end of its output     12") !=
             std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
