// SPDX-License-Identifier: Apache-2.0
// What a person reads while a search runs.
#include "engine/cli/progress_line.hpp"

#include <boost/test/unit_test.hpp>

#include "engine/cli/search_session.hpp"

using namespace cultivar;

BOOST_AUTO_TEST_SUITE(progress_line)

BOOST_AUTO_TEST_CASE(before_anything_is_known_it_claims_nothing) {
  BOOST_TEST(words_of(Progress{}) == "no kernel measured yet | 0 evaluated | 0 in flight | 0 s");
}

BOOST_AUTO_TEST_CASE(a_kernel_for_a_gpu_is_checked_where_one_is) {
  BOOST_TEST(where_it_runs(target_named("cpu"), 0) == "on this or another machine");
  BOOST_TEST(where_it_runs(target_named("cuda"), 1) == "on this or another machine");
  BOOST_TEST(where_it_runs(target_named("cuda"), 0) == "on a machine with a GPU (none was found here)");
}

BOOST_AUTO_TEST_CASE(a_duel_and_a_confirmation_are_named_while_they_go_on) {
  Progress p;
  p.evaluations = 7, p.measured = 5, p.rejected = {{Stage::compile, 2}};
  p.in_flight = {{8, "tune", InFlight::Doing::compiling},
                 {3, "seed", InFlight::Doing::confirmation, 0, "step 4 of 11: determinism R8"},
                 {5, "tune", InFlight::Doing::duel, 2, "14 of at most 2000 pairs, 3.1 of 10 s"}};
  p.elapsed_s = 61.0, p.wall_limit_s = 180.0, p.seconds_left = 119.0;
  BOOST_TEST(
      words_of(p) ==
      "no kernel confirmed yet | 7 evaluated | 2 rejected (compile 2) | 3 in flight | "
      "confirming #3: step 4 of 11: determinism R8 | #5 in its duel with #2: 14 of at most 2000 pairs, "
      "3.1 of 10 s | 1 min 1 s of 3 min, about 1 min 59 s left");
}

BOOST_AUTO_TEST_CASE(where_the_line_is_short_the_best_the_confirmation_and_the_time_left_stay) {
  Progress p;
  p.best = 3, p.best_fitness = 101.5, p.unit = "GFLOPS", p.to_seed = SeedRatio{8.35, false};
  p.evaluations = 1600, p.evaluations_per_hour = 954.0;
  p.rejected = {{Stage::compile, 20}, {Stage::smoke, 31}, {Stage::measure, 2}};
  p.in_flight = {{8, "tune", InFlight::Doing::compiling},
                 {1234, "seed", InFlight::Doing::confirmation, 0,
                  "step 5 of 11: drawn run 12 of 160: R31523_C63432_eps1.9853167032124475e-05_f32"}};
  p.elapsed_s = 61.0, p.wall_limit_s = 180.0, p.seconds_left = 119.0;
  const auto shown = [&](std::size_t width) { return line_of(fields_of(p), width); };
  BOOST_TEST(words_of(p).size() > 200u);
  for (std::size_t width = 240; width >= 60; --width) {
    const std::string line = shown(width);
    BOOST_TEST(line.size() <= width, line);
    BOOST_TEST(line.starts_with("best 101.5 GFLOPS (#3"), line);
    BOOST_TEST(line.ends_with(" 1 min 59 s left"), line);
    if (width >= 79) BOOST_TEST(line.find("confirming #1234: step 5 of 11") != line.npos, line);
  }
  BOOST_TEST(shown(10).size() == 10u);
}

BOOST_AUTO_TEST_CASE(the_step_that_delays_a_search_is_told) {
  Progress p;
  p.in_flight = {{1, "seed", InFlight::Doing::evaluating}, {2, "seed", InFlight::Doing::compiling}};
  p.step = "#1 is being evaluated: sweep R3000 (12 s)";
  p.elapsed_s = 31.0;
  BOOST_TEST(
      words_of(p) ==
      "no kernel measured yet | 0 evaluated | 2 in flight | #1 is being evaluated: sweep R3000 (12 s) | "
      "31 s");
}

BOOST_AUTO_TEST_CASE(the_best_so_far_comes_first) {
  Progress p;
  p.best = 3, p.best_fitness = 101.5, p.unit = "GFLOPS", p.to_seed = SeedRatio{8.35, false};
  p.evaluations = 16, p.evaluations_per_hour = 954.0, p.evaluation_limit = 40;
  BOOST_TEST(words_of(p) ==
             "best 101.5 GFLOPS (#3), measured 8.35x first seed | 16 evaluated, 954/h | 0 in flight | "
             "0 s, 16 of 40 evaluations");
}

BOOST_AUTO_TEST_CASE(the_last_comparisons_and_their_limit_are_shown) {
  Progress p;
  p.evaluations = p.evaluation_limit = 40, p.challengers = 734;
  BOOST_TEST(words_of(p).find("comparisons") == std::string::npos);
  p.last_comparisons = 12, p.most_last_comparisons = 64;
  BOOST_TEST(
      words_of(p).find(" | 12 of the last 64 comparisons, 734 challengers waiting | ") != std::string::npos,
      words_of(p));
}

BOOST_AUTO_TEST_CASE(the_times_of_a_log_tell_seconds_also_after_days) {
  BOOST_TEST(time_in_log(61.0) == "1 min 1 s");
  BOOST_TEST(time_in_log(100'000.9) == "27:46:40 h");
}

BOOST_AUTO_TEST_CASE(a_search_that_ends_says_why) {
  Progress p;
  p.closing = "no kernel was promoted for 6 h";
  BOOST_TEST(words_of(p).find(" | ending: no kernel was promoted for 6 h | 0 s") != std::string::npos);
  p.closing_left_s = 90.0;
  BOOST_TEST(words_of(p).find(" | ending in 1 min 30 s at most: no kernel") != std::string::npos);
  p.in_flight = {{1, "seed", InFlight::Doing::confirmation, 0, "step 5 of 11: drawn run 12 of 160"}};
  BOOST_TEST(line_of(fields_of(p), 79) ==
             "no kernel measured yet | confirming #1: step 5 of 11: drawn  ... | ending | 0 s");
}

BOOST_AUTO_TEST_CASE(a_running_tool_is_not_a_model_that_is_waited_for) {
  Progress p;
  p.questions.emplace();
  p.questions->open = 2, p.questions->tools = 1, p.questions->waits_for = "me (mailbox: /letters/requests)";
  BOOST_TEST(words_of(p).find("2 questions pending | 1 tool running | 0 s") != std::string::npos);
  p.questions->tools = 0;
  BOOST_TEST(words_of(p).find("| waiting for me (mailbox: /letters/requests)") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
