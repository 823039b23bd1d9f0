// SPDX-License-Identifier: Apache-2.0
// The supervisor's decisions in the record of a whole search over the simulated evaluator: what they led to,
// what `status` and reports show of them, and that a replay and a resumed search decide the same.
#include "engine/store/interventions.hpp"

#include <SQLiteCpp/Database.h>
#include <boost/test/unit_test.hpp>

#include "engine/store/summary.hpp"
#include "engine/views/run_report.hpp"
#include "support/scripted_search.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace {

const std::atomic<bool> kNever{false};
const std::string kOften =
    "supervisor={evaluations: 6, term: 4, failures: 0, repetitions: 0, trials: 0, roofline: 0}";

struct Searched : ScratchFolder {
  std::filesystem::path run = path() / "run";

  void search(const std::vector<std::string>& overrides, const Simulation& simulation = {}) {
    const auto outcome = begin_search(softmax_config(path() / "config", overrides), run,
                                      simulated_runtime(simulation), {}, kNever);
    BOOST_REQUIRE_MESSAGE(outcome, (outcome ? "" : outcome.error().message));
  }
  Record record() const { return std::move(Record::open(run).value()); }
  std::vector<std::string> differences() const {
    const auto report = replay(run, simulated_runtime({}));
    BOOST_REQUIRE_MESSAGE(report, (report ? "" : report.error().message));
    interventions = report->interventions;
    return report->differences;
  }
  mutable std::int64_t interventions = 0;
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(interventions, Searched)

BOOST_AUTO_TEST_CASE(each_is_recorded_with_its_result_and_decided_again_by_a_replay) {
  for (const char* strategy : {"islands", "lineage", "map_elites"}) {
    std::filesystem::remove_all(run);
    search({"budget.evaluations=90", kOften, std::string("population.strategy=") + strategy});
    const auto rows = interventions_of(record());
    BOOST_REQUIRE(rows.size() >= 3U);
    std::set<Answer> answers;
    std::int64_t evaluated = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      BOOST_TEST(rows[i].intervention.number == static_cast<std::int64_t>(i + 1));
      BOOST_TEST((rows[i].intervention.trigger == Trigger::evaluations));
      BOOST_TEST(rows[i].intervention.seen >= 3.0);
      answers.insert(rows[i].intervention.answer);
      BOOST_TEST((rows[i].result.has_value() || i + 1 == rows.size()));
      if (rows[i].result) evaluated += rows[i].result->evaluated;
    }
    BOOST_TEST(evaluated > 0);
    BOOST_TEST(answers.contains(Answer::tuning));
    BOOST_TEST(!answers.contains(Answer::plan));  // no model is asked
    for (const std::string& difference : differences()) BOOST_ERROR(strategy + (": " + difference));
    BOOST_TEST(interventions >= static_cast<std::int64_t>(rows.size()));

    const Summary summary = summary_of(record());
    BOOST_REQUIRE(summary.supervisor.is_object());
    BOOST_TEST(summary.supervisor.at("interventions") == static_cast<std::int64_t>(rows.size()));
    BOOST_TEST(summary.supervisor.at(rows.back().result ? "last" : "current").is_object());
    BOOST_TEST(tell(record()).interventions.size() == rows.size());
  }
}

BOOST_AUTO_TEST_CASE(a_replay_notices_a_decision_that_was_changed_or_left_out) {
  search({"budget.evaluations=60", kOften});
  BOOST_TEST(differences().empty());
  SQLite::Database database((run / "run.db").string(), SQLite::OPEN_READWRITE);
  database.exec(
      "UPDATE decisions SET body = replace(body, '\"number\":1', '\"number\":7') WHERE kind = 'intervene' "
      "AND seq = (SELECT "
      "min(seq) FROM decisions WHERE kind = 'intervene')");
  BOOST_TEST(!differences().empty());
}

BOOST_AUTO_TEST_CASE(a_resumed_search_goes_on_with_the_intervention_and_its_counts) {
  search({"budget.evaluations=40", kOften});
  BOOST_REQUIRE(resume_search(run, {"budget.evaluations=80"}, simulated_runtime({}), {}, kNever));
  BOOST_TEST(interventions_of(record()).size() >= 3);
  for (const std::string& difference : differences()) BOOST_ERROR(difference);
}

// Every kernel is near a peak that is this low. Records tell which peak their decisions were made with.
BOOST_AUTO_TEST_CASE(the_roofline_follows_from_the_rates_in_the_record) {
  const std::string roofline =
      "supervisor={evaluations: 0, failures: 0, repetitions: 0, trials: 0, roofline: 0.9}";
  Simulation high, low;
  high.ceilings = {0.0, 1e15, 1e15, 1e-6};
  low.ceilings = high.ceilings;
  low.ceilings.cold = {{8 << 20, 1e6}, {32 << 20, 1e5}};
  search({"budget.evaluations=40", roofline}, low);
  BOOST_TEST(!interventions_of(record()).empty());
  BOOST_TEST(record().facts().environment["devices"][0]["ceilings"]["cold"].size() == 2U);
  BOOST_REQUIRE(resume_search(run, {"budget.evaluations=60"}, simulated_runtime(high), {}, kNever));
  for (const std::string& difference : differences()) BOOST_ERROR(difference);

  std::filesystem::remove_all(run);
  search({"budget.evaluations=40", roofline}, high);
  SQLite::Database((run / "run.db").string(), SQLite::OPEN_READWRITE)
      .exec("UPDATE meta SET value = replace(value, '\"cold\":[],', '') WHERE key = 'environment'");
  BOOST_TEST(!record().facts().environment["devices"][0]["ceilings"].contains("cold"));  // as earlier ones
  BOOST_REQUIRE(resume_search(run, {"budget.evaluations=60"}, simulated_runtime(low), {}, kNever));
  BOOST_TEST(summary_of(record()).evaluations >= 60);
  BOOST_TEST(interventions_of(record()).empty());
  for (const std::string& difference : differences()) BOOST_ERROR(difference);
}

BOOST_AUTO_TEST_CASE(an_inactive_supervisor_leaves_no_trace_and_rules_1_have_none) {
  search({"budget.evaluations=40", "supervisor.active=false"});
  BOOST_TEST(interventions_of(record()).empty());
  BOOST_TEST(summary_of(record()).supervisor.is_null());
  std::filesystem::remove_all(run);
  search({"budget.evaluations=40", "rules=1"});
  BOOST_TEST(interventions_of(record()).empty());
  for (const std::string& difference : differences()) BOOST_ERROR(difference);
}

BOOST_AUTO_TEST_CASE(bodies_read_back_the_same_and_unknown_names_are_refused) {
  const Intervention given{3, Trigger::failures, Answer::ancestor, 6.0, "mutate with m: compile", 17};
  BOOST_TEST((intervention_in(to_json(given).dump()) == given));
  const InterventionResult result{3, 12, 9, 1, 0.25};
  BOOST_TEST((result_in(to_json(result).dump()) == result));
  nlohmann::json other = to_json(given);
  other["answer"] = "prayer";
  BOOST_CHECK_THROW(intervention_in(other.dump()), std::runtime_error);
  BOOST_TEST(
      text_of(given) ==
      "intervention 3: 6 rejections in a row (mutate with m: compile): a new line from its ancestor #17");
}

BOOST_AUTO_TEST_SUITE_END()
