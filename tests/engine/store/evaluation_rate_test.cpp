// SPDX-License-Identifier: Apache-2.0
// What counts as evaluations per hour.

#include <boost/test/unit_test.hpp>

#include "engine/store/summary.hpp"
#include "support/command.hpp"
#include "support/synthetic_run.hpp"

using namespace cultivar;
using namespace cultivar::testing;

BOOST_AUTO_TEST_SUITE(evaluation_rate)

BOOST_AUTO_TEST_CASE(the_time_until_the_first_evaluation_ended_does_not_count) {
  EvaluationRate rate;
  BOOST_TEST(rate.per_hour() == 0.0);
  rate.ended(60.0);  // with the start of the compilers
  BOOST_TEST(rate.per_hour() == 0.0);
  for (const double at : {70.0, 80.0, 90.0}) rate.ended(at);
  BOOST_TEST(rate.per_hour() == 360.0);
}

BOOST_AUTO_TEST_CASE(only_the_last_quarter_of_an_hour_counts_or_the_newest_20) {
  EvaluationRate fast, slow;
  for (int i = 0; i <= 100; ++i) fast.ended(100.0 * i);
  for (int i = 1; i <= 90; ++i) fast.ended(10'000.0 + 10.0 * i);
  BOOST_TEST(fast.per_hour() == 360.0);
  for (int i = 0; i <= 100; ++i) slow.ended(10.0 * i);
  for (int i = 1; i <= 20; ++i) slow.ended(1000.0 + 3600.0 * i);
  BOOST_TEST(slow.per_hour() == 1.0);
}

BOOST_AUTO_TEST_CASE(a_record_gives_what_its_search_had) {
  TemporaryFolder folder;
  SyntheticRun run;
  run.individuals = 1500;
  write_synthetic_run(folder / "run", run);
  const auto record = Record::open(folder / "run");
  BOOST_REQUIRE(record);
  EvaluationRate rate;
  record->each_decision([&](const DecisionRow& decision) {
    if (decision.kind == DecisionKind::judge) rate.ended(decision.elapsed_s);
  });
  BOOST_TEST(rate.per_hour() > 0.0);
  BOOST_TEST(rate_of(*record).per_hour() == rate.per_hour());
  const Summary summary = summary_of(*record);
  BOOST_TEST(summary.evaluations_per_hour == rate.per_hour());
}

BOOST_AUTO_TEST_SUITE_END()
