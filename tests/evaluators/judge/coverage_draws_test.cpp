// SPDX-License-Identifier: Apache-2.0
// long: 100 s, evaluators/judge, evaluators/coverage, evaluators/check
// always: numbers_in*, a_wrong_path*
#include "evaluators/judge/check_build_runs.hpp"

#include <boost/test/unit_test.hpp>

#include "support/task_judge.hpp"

using namespace cultivar;
using cultivar::testing::TaskJudge;

BOOST_AUTO_TEST_SUITE(coverage_draws)

BOOST_AUTO_TEST_CASE(numbers_in_and_before_a_block_are_found_nearest_first) {
  const std::string source =
      "int a17(int C) {\n"
      "  if (C > 4'096 && C < 0x2000)  // not 99\n"
      "    return 5;\n"
      "  return 1.5f * 31;\n"
      "}\n";
  BOOST_TEST((numbers_near(source, {{0, "variant.cpp", 3, 3}}) == std::vector<std::int64_t>{5, 4096, 8192}));
  BOOST_TEST((numbers_near(source, {{0, "variant.cpp", 900, 950}}).empty()));
  BOOST_TEST(numbers_near(source, {}).empty());
}

// A wrong path for one width that no list has is drawn because its block has not run.
BOOST_AUTO_TEST_CASE(a_wrong_path_for_exactly_one_width_is_refused) {
  TaskJudge judge("softmax", {{"R", 512}, {"C", 2048}});
  const Evaluation wrong = judge.judge("coverage/one_width.cpp", Stage::confirm);
  BOOST_TEST(!wrong.measured());
  BOOST_TEST((wrong.reason.find("C7919") != std::string::npos), wrong.reason);
}

BOOST_AUTO_TEST_CASE(lines_that_no_drawn_shape_reaches_are_listed) {
  TaskJudge judge("softmax", {{"R", 512}, {"C", 2048}});
  const Evaluation passed = judge.judge("coverage/never.cpp", Stage::confirm);
  BOOST_TEST_REQUIRE(passed.measured(), passed.reason << passed.diagnostics);
  BOOST_REQUIRE(passed.coverage);
  BOOST_TEST(passed.coverage->ran == passed.coverage->blocks - 1);
  BOOST_REQUIRE(passed.coverage->not_run.size() == 1u);
  BOOST_TEST(passed.coverage->not_run[0].text() == "line 26: never ran under a check");
  BOOST_TEST(passed.coverage->drawn_runs > 10);
}

BOOST_AUTO_TEST_CASE(an_index_outside_an_array_that_no_output_shows_is_refused) {
  TaskJudge judge("softmax", {{"R", 512}, {"C", 2048}});
  const Evaluation wrong = judge.judge("coverage/overrun.cpp", Stage::confirm);
  BOOST_TEST(!wrong.measured());
  BOOST_TEST(wrong.reason.starts_with("line 20: the index 8 is outside 'float [8]'"), wrong.reason);
}

BOOST_AUTO_TEST_CASE(a_local_that_is_not_always_written_is_refused) {
  TaskJudge judge("softmax", {{"R", 512}, {"C", 2048}});
  const Evaluation wrong = judge.judge("coverage/unwritten_local.cpp", Stage::confirm);
  BOOST_TEST(!wrong.measured());
  BOOST_TEST(wrong.reason.starts_with("wrong result of the check build"), wrong.reason);
}

BOOST_AUTO_TEST_SUITE_END()
