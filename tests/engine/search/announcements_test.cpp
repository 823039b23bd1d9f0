// SPDX-License-Identifier: Apache-2.0
// A whole search that tells a real HTTP server what happens, and its budgets of device time and patience.
#include "engine/search/announcements.hpp"

#include <boost/test/unit_test.hpp>
#include <map>

#include "engine/store/record.hpp"
#include "engine/store/summary.hpp"
#include "support/command.hpp"
#include "support/contains.hpp"
#include "support/scripted_search.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace {

const std::atomic<bool> kNever{false};

Simulation slow() {
  Simulation simulation;
  simulation.evaluate_s = 0.02;
  return simulation;
}

struct Told : ScratchFolder {
  Outcome search(const std::vector<std::string>& overrides, const Simulation& simulation = {}) {
    const Config config = softmax_config(path() / "config", overrides);
    const auto outcome = begin_search(config, path() / "run", simulated_runtime(simulation), {}, kNever);
    BOOST_REQUIRE_MESSAGE(outcome, (outcome ? "" : outcome.error().message));
    return *outcome;
  }
  Record record() const { return std::move(*Record::open(path() / "run")); }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(announcements, Told)

BOOST_AUTO_TEST_CASE(a_promotion_while_work_in_progress_is_finished_takes_back_the_end_by_a_plateau) {
  Simulation simulation = slow();
  simulation.gate_s = 1.5;  // longer than the plateau: its winner is promoted after it
  std::atomic<bool> enough{false};
  bool reopened = false, shown = false;
  SearchCallbacks callbacks;
  callbacks.event = [&](const Event& event) {
    reopened = reopened || contains(event.text, "it goes on");
    if (reopened && event.kind == "measured") enough = true;
  };
  callbacks.progress = [&](const Progress& progress) {
    if (progress.closing.empty()) return;
    const auto ending = summary_of(record()).ending;
    shown = shown || (ending && contains(ending->why, "no kernel was promoted") && ending->left_s > 0.0);
  };
  const Config config =
      softmax_config(path() / "config", {"budget.plateau=1s", "budget.evaluations=off", "budget.wall=60s"});
  const auto outcome = begin_search(config, path() / "run", simulated_runtime(simulation), callbacks, enough);
  BOOST_REQUIRE(outcome);
  BOOST_TEST(shown);
  BOOST_TEST(reopened);
  BOOST_TEST((outcome->stop == Outcome::Stop::interrupted), outcome->reason);
  BOOST_TEST(!summary_of(record()).ending);
}

BOOST_AUTO_TEST_CASE(a_search_tells_of_its_best_kernels_its_budget_and_its_end) {
  ChatServer server([](const SeenRequest&) { return status_reply(200, "ok"); });
  const auto prom = path() / "metrics" / "cultivar.prom";
  const Outcome outcome = search(
      {"budget.evaluations=30", "metrics=" + prom.string(), "notify=[{webhook: \"" + server.url() + "\"}]"},
      slow());
  BOOST_TEST((outcome.stop == Outcome::Stop::evaluations), outcome.reason);
  std::map<std::string, int> events;
  nlohmann::json best;
  for (const SeenRequest& request : server.seen()) {
    ++events[request.body["event"].get<std::string>()];
    if (request.body["event"] == "best") best = request.body;
  }
  BOOST_TEST(events["best"] == summary_of(record()).promotions);
  BOOST_TEST(best["individual"] == outcome.best);
  BOOST_TEST(best["best"]["individual"] == outcome.best, best.dump());
  BOOST_TEST(events["end"] == 1);
  BOOST_TEST(events["budget"] == 1);
  const nlohmann::json end = server.seen().back().body;
  BOOST_TEST(contains(end["text"].get<std::string>(), "finished (evaluations: "), end.dump());
  BOOST_TEST(end["best"]["individual"] == outcome.best);
  const std::string metrics = read_text(prom);
  BOOST_TEST(contains(metrics, "state=\"finished\"} 1\n"), metrics);
  BOOST_TEST(contains(metrics, "cultivar_best_fitness{"), metrics);
  BOOST_TEST(contains(metrics, "cultivar_challengers{run=\"simulated\"} "), metrics);
  BOOST_TEST(contains(metrics, "cultivar_waiting_for_workers{run=\"simulated\"} 0"), metrics);
  BOOST_TEST(contains(metrics, "cultivar_best_individual{run=\"simulated\"} " + std::to_string(outcome.best)),
             metrics);
}

BOOST_AUTO_TEST_CASE(the_end_of_a_search_is_told_in_one_sentence) {
  ChatServer server([](const SeenRequest&) { return status_reply(200, "ok"); });
  const Config config = softmax_config(path() / "config", {"notify=[{webhook: \"" + server.url() + "\"}]"});
  {
    Announcements announcements(config, path() / "run", {});
    for (const char* what : {"first", "second"}) announcements.callbacks().event({1.0, "trouble", what, 0});
    Summary summary;
    summary.state = "stopped";
    summary.stop_reason = "interrupted; all results so far are recorded";
    announcements.ended("interrupted", summary);
  }
  const auto seen = server.seen();
  const auto text = [&](std::size_t i) { return seen.at(i).body["text"].get<std::string>(); };
  BOOST_REQUIRE(seen.size() == 3U);
  BOOST_TEST(text(0) == "simulated: first");
  BOOST_TEST(text(1) == "simulated: 1 more trouble since the last notification");
  BOOST_TEST(text(2) == "simulated: stopped (interrupted; all results so far are recorded)");
}

BOOST_AUTO_TEST_CASE(that_no_language_model_can_be_reached_for_a_minute_is_told_once) {
  ChatServer server([](const SeenRequest&) { return status_reply(200, "ok"); });
  const Config config = softmax_config(path() / "config", {"notify=[{webhook: \"" + server.url() + "\"}]"});
  const std::string paused = "no language model is available: m (unreachable: connection refused)";
  {
    Announcements announcements(config, path() / "run", {});
    const auto at = [&](double elapsed_s, bool away) {
      Progress progress;
      progress.elapsed_s = elapsed_s;
      progress.questions.emplace();
      if (away) progress.questions->paused = paused;
      announcements.callbacks().progress(progress);
    };
    at(10.0, true), at(40.0, true);  // a short one is not worth a notification
    at(41.0, false), at(120.0, false);
    at(200.0, true), at(230.0, true), at(231.0, false), at(232.0, true);  // tried in between
    at(261.0, true), at(300.0, true);
    at(301.0, false), at(400.0, false);
    at(500.0, true), at(560.0, true);  // another one
    announcements.ended("interrupted", {});
  }
  std::vector<std::string> told;
  for (const SeenRequest& request : server.seen())
    if (request.body["event"] == "trouble") told.push_back(request.body["text"].get<std::string>());
  BOOST_TEST(
      (told == std::vector<std::string>{"simulated: for 61 s " + paused, "simulated: for 60 s " + paused}));
}

BOOST_AUTO_TEST_CASE(a_notification_of_the_end_that_is_lost_is_told_recorded_and_forgotten_on_resume) {
  ChatServer server([](const SeenRequest& request) {
    return status_reply(request.body["event"] == "end" ? 410 : 200, "");
  });
  const Config config = softmax_config(
      path() / "config", {"budget.evaluations=4", "notify=[{webhook: \"" + server.url() + "\"}]"});
  std::vector<std::string> told;
  const SearchCallbacks shown{.event =
                                  [&](const Event& event) {
                                    if (event.kind == "trouble") told.push_back(event.text);
                                  },
                              .progress = {}};
  BOOST_REQUIRE(begin_search(config, path() / "run", simulated_runtime({}), shown, kNever));
  BOOST_REQUIRE(told.size() == 1U);
  BOOST_TEST(contains(told[0], "HTTP status 410"), told[0]);
  BOOST_TEST(summary_of(record()).undelivered == told[0]);
  BOOST_TEST(record().events(1).at(0).text == told[0]);
  BOOST_TEST(summary_of(record()).state == "finished");
  BOOST_REQUIRE(resume_search(path() / "run", {"budget.evaluations=6", "notify=[]"}, simulated_runtime({}),
                              {}, kNever));
  BOOST_TEST(summary_of(record()).undelivered.empty());
}

BOOST_AUTO_TEST_CASE(the_metrics_have_every_budget) {
  const auto prom = path() / "cultivar.prom";
  search({"budget={evaluations: 8, wall: 1h, device_hours: 2, plateau: 30m}", "metrics=" + prom.string()});
  const std::string metrics = read_text(prom);
  for (const char* line :
       {"budget_limit{kind=\"evaluations\",run=\"simulated\"} 8\n",
        "budget_used{kind=\"evaluations\",run=\"simulated\"} 8\n",
        "budget_limit{kind=\"wall\",run=\"simulated\"} 3600\n", "budget_used{kind=\"wall\",",
        "budget_limit{kind=\"device_hours\",run=\"simulated\"} 2\n", "budget_used{kind=\"device_hours\",",
        "budget_limit{kind=\"plateau\",run=\"simulated\"} 1800\n", "budget_used{kind=\"plateau\","})
    BOOST_TEST(contains(metrics, line), line << " is in\n" << metrics);
}

BOOST_AUTO_TEST_CASE(device_hours_are_a_budget_over_all_sessions) {
  const std::string limit = std::to_string(0.5 / 3600.0);
  const Outcome outcome = search({"budget.device_hours=" + limit}, slow());
  BOOST_TEST((outcome.stop == Outcome::Stop::device), outcome.reason);
  const Summary summary = summary_of(record());
  BOOST_TEST(summary.state == "finished");
  BOOST_TEST(summary.budget.at("device_hours").used >= 0.5 / 3600.0);
  BOOST_TEST(summary.budget.at("device_hours").used < 5.0 / 3600.0);
  BOOST_CHECK_THROW((void)resume_search(path() / "run", {"budget.device_hours=" + limit},
                                        simulated_runtime({}), {}, kNever),
                    InputError);
  const auto more = resume_search(path() / "run", {"budget.device_hours=1", "budget.evaluations=60"},
                                  simulated_runtime({}), {}, kNever);
  BOOST_REQUIRE(more);
  BOOST_TEST((more->stop == Outcome::Stop::evaluations), more->reason);
  BOOST_TEST(summary_of(record()).budget.at("device_hours").used >= summary.budget.at("device_hours").used);
}

BOOST_AUTO_TEST_CASE(a_plateau_ends_a_search_and_says_what_was_tried) {
  const Outcome outcome = search(
      {"budget.plateau=2s", "budget.evaluations=100000", "supervisor.evaluations=5", "supervisor.term=3"},
      [] {
        Simulation simulation = slow();
        simulation.evaluate_s = 0.1;
        return simulation;
      }());
  BOOST_TEST((outcome.stop == Outcome::Stop::plateau), outcome.reason);
  BOOST_TEST(contains(outcome.reason, "no kernel was promoted for 2 s"), outcome.reason);
  BOOST_TEST(contains(outcome.reason, "the supervisor tried: "), outcome.reason);
  const Summary summary = summary_of(record());
  BOOST_TEST(summary.state == "finished");
  BOOST_TEST(summary.budget.at("plateau").limit.value() == 2.0);
  const auto report = replay(path() / "run", simulated_runtime({}));
  BOOST_REQUIRE(report);
  BOOST_TEST(report->differences.empty());
}

BOOST_AUTO_TEST_SUITE_END()
