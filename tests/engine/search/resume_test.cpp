// SPDX-License-Identifier: Apache-2.0
// Resumed searches: with variants submitted meanwhile, and on a device where everything is measured slower.
#include <SQLiteCpp/Database.h>
#include <unistd.h>
#include <boost/test/unit_test.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/store/run_folder.hpp"
#include "engine/store/summary.hpp"
#include "evaluators/system/files.hpp"
#include "support/contains.hpp"
#include "support/scripted_search.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace {

const std::atomic<bool> kNever{false};

struct Stopped : ScratchFolder {
  std::filesystem::path run = path() / "run";

  void begin(const std::string& evaluations) {
    const Config config = softmax_config(path() / "config", {"budget.evaluations=" + evaluations});
    BOOST_REQUIRE(begin_search(config, run, simulated_runtime({}), {}, kNever));
  }
  // The text of the events of this kind.
  std::string go_on(const std::string& evaluations, const Simulation& simulation = {},
                    const std::string& kind = "") {
    std::string said;
    SearchCallbacks callbacks;
    callbacks.event = [&](const Event& event) {
      if (event.kind == kind) said += event.text + "\n";
    };
    BOOST_REQUIRE(resume_search(run, {"budget.evaluations=" + evaluations}, simulated_runtime(simulation),
                                callbacks, kNever));
    return said;
  }
  Record record() const {
    auto opened = Record::open(run);
    BOOST_REQUIRE(opened);
    return std::move(*opened);
  }
  Individual best() const { return record().individual(*record().best())->individual; }
  void require_replay_agrees() const {
    const auto report = replay(run, simulated_runtime({}));
    BOOST_REQUIRE_MESSAGE(report, (report ? "" : report.error().message));
    for (const std::string& difference : report->differences) BOOST_ERROR(difference);
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(resume, Stopped)

BOOST_AUTO_TEST_CASE(what_was_submitted_meanwhile_is_taken_up) {
  begin("20");
  const Configuration good{{"BLOCK", std::int64_t{64}},
                           {"UNROLL", std::int64_t{4}},
                           {"THREADS", std::int64_t{8}},
                           {"LAYOUT", std::string("packed")}};
  const auto file = submit_variant(run, softmax_source("softmax_very_fast"), good, "by hand");
  BOOST_REQUIRE(file);
  BOOST_CHECK_THROW(submit_variant(run, "no manifest", {}, ""), InputError);
  const auto cuda = read_file(CULTIVAR_SOURCE_DIR "/configs/tasks/softmax/seeds/cuda_naive.cu");
  BOOST_REQUIRE(cuda);
  BOOST_CHECK_EXCEPTION(submit_variant(run, *cuda, {}, ""), InputError, [](const InputError& error) {
    return contains(error.what(), "this run's target is cpu");
  });
  const auto again = submit_variant(run, softmax_source("softmax_very_fast"), good, "by hand, twice");
  BOOST_REQUIRE(!again);
  BOOST_TEST(again.error().message == "the same kernel is already in the inbox, as " + file->string());
  BOOST_TEST(summary_of(record()).submissions_waiting == 1);
  go_on("24");
  BOOST_TEST(!std::filesystem::exists(*file));
  BOOST_TEST(summary_of(record()).submissions_waiting == 0);
  const auto known = submit_variant(run, softmax_source("softmax_very_fast"), good, "by hand, thrice");
  BOOST_REQUIRE(!known);
  BOOST_TEST(known.error().message.find("of this run is the same kernel") != std::string::npos);
  bool found = false;
  record().each_individual([&](const IndividualRow& row) {
    if (row.individual.descent.origin != Origin::submission) return;
    found = true;
    BOOST_TEST(row.individual.descent.note == "by hand");
    BOOST_TEST((row.state == IndividualState::measured));
  });
  BOOST_TEST(found);
  require_replay_agrees();
}

BOOST_AUTO_TEST_CASE(a_rejected_kernel_is_evaluated_again_when_somebody_asks_for_it) {
  begin("20");
  const Configuration good{{"BLOCK", std::int64_t{64}},
                           {"UNROLL", std::int64_t{4}},
                           {"THREADS", std::int64_t{8}},
                           {"LAYOUT", std::string("packed")}};
  const std::string source = softmax_source("softmax_very_fast");
  const auto submit = [&](bool again) { return submit_variant(run, source, good, "mine", {}, again); };
  const auto submitted = [&] {
    std::vector<IndividualRow> rows;
    record().each_individual([&](const IndividualRow& row) {
      if (row.individual.descent.note == "mine") rows.push_back(row);
    });
    return rows;
  };
  BOOST_REQUIRE(submit(false));
  Simulation ill;
  ill.evaluate_instead = [](const Variant&) -> Expected<Evaluation> {
    return rejection(Stage::smoke, "wrong output", "planted");
  };
  go_on("24", ill);
  BOOST_REQUIRE(submitted().size() == 1u);
  BOOST_TEST((submitted().front().state == IndividualState::rejected));

  const auto refused = submit(false);
  BOOST_REQUIRE(!refused);
  BOOST_TEST(contains(refused.error().message, "`--again` has it evaluated once more"),
             refused.error().message);
  BOOST_REQUIRE(submit(true));
  go_on("28");
  BOOST_REQUIRE(submitted().size() == 2u);
  BOOST_TEST((submitted().back().state == IndividualState::measured));
  BOOST_TEST(best().descent.note == "mine");
  BOOST_TEST(!submit(true));  // it is not rejected any more
  require_replay_agrees();
}

BOOST_AUTO_TEST_CASE(a_budget_that_is_already_exhausted_is_rejected_and_leaves_no_trace) {
  begin("20");
  const auto judged = summary_of(record()).evaluations;
  for (const char* spent : {"budget.evaluations=2", "budget.evaluations=20"})
    BOOST_CHECK_EXCEPTION((void)resume_search(run, {spent}, simulated_runtime({}), {}, kNever), InputError,
                          [&](const InputError& e) {
                            return contains(e.what(), "--set " + std::string(spent)) &&
                                   contains(e.what(), "already spent");
                          });
  BOOST_TEST(summary_of(record()).evaluations == judged);
  BOOST_TEST(summary_of(record()).budget.at("evaluations").limit.value() == 20.0);
  go_on("24");
  require_replay_agrees();
}

BOOST_AUTO_TEST_CASE(a_run_whose_duels_were_all_undecided_is_rescued_by_other_settings_of_its_gate) {
  Simulation noisy;
  noisy.gate_noise = 50.0;  // hides every gain of this task
  const Config config =
      softmax_config(path() / "config", {"budget.evaluations=30", "gate.max_device_seconds=0.3s"});
  BOOST_REQUIRE(begin_search(config, run, simulated_runtime(noisy), {}, kNever));
  const auto decisions = [&] {
    std::vector<std::string> all;
    record().each_decision([&](const DecisionRow& d) {
      all.push_back(std::string(name_of(d.kind)) + std::to_string(d.individual) + d.body);
    });
    return all;
  };
  const std::vector<std::string> before = decisions();
  const auto undecided = std::ranges::count(record().duels(), Verdict::undecided, &DuelRow::verdict);
  BOOST_REQUIRE(undecided > 0);
  const double stuck = best().fitness;
  require_replay_agrees();
  const auto resume = [&](const std::vector<std::string>& settings) {
    return resume_search(run, settings, simulated_runtime({}), {}, kNever);
  };
  BOOST_CHECK_THROW((void)resume({"gate.nonsense=1"}), InputError);
  BOOST_CHECK_THROW((void)resume({"population.islands=1"}), InputError);
  // No further individual is evaluated: the undecided ones are compared again, on a quieter machine.
  BOOST_REQUIRE(resume({"gate.max_device_seconds=20s", "gate.min_gain=0.02"}));
  BOOST_TEST(best().fitness > stuck);
  BOOST_TEST(summary_of(record()).evaluations == 30);
  std::vector<std::string> after = decisions();
  BOOST_REQUIRE(after.size() > before.size());
  after.resize(before.size());
  BOOST_TEST(after == before);
  require_replay_agrees();
  BOOST_REQUIRE(resume({"gate.min_gain=0.001", "budget.evaluations=50"}));
  require_replay_agrees();
  BOOST_REQUIRE(resume({"budget.evaluations=60"}));
  require_replay_agrees();
}

BOOST_AUTO_TEST_CASE(a_submission_has_its_duel_though_it_is_measured_slower_than_the_best_was) {
  begin("60");
  const Individual before = best();
  BOOST_REQUIRE(submit_variant(run, softmax_source("softmax_fastest"), before.configuration, "by hand"));
  Simulation hot;
  hot.noise = 0.0;
  hot.pace = 0.97 * 1.5 / 1.6;
  go_on("64", hot);
  BOOST_TEST(best().descent.note == "by hand");
  BOOST_TEST(best().fitness < before.fitness);
  require_replay_agrees();
}

BOOST_AUTO_TEST_CASE(where_all_is_slower_better_ones_are_still_found) {
  begin("20");
  const Individual before = best();
  Simulation hot;
  hot.pace = 0.5;
  const std::string said = go_on("90", hot, "pace");
  BOOST_TEST(said.find("new variants are compared at its current pace") != std::string::npos, said);
  BOOST_TEST(best().id > 20);
  BOOST_TEST(best().fitness > 0.5 * before.fitness);
  require_replay_agrees();
}

BOOST_AUTO_TEST_CASE(one_disturbed_measurement_of_the_best_changes_no_scale) {
  begin("20");
  Simulation disturbed;
  disturbed.pace = 0.5;
  disturbed.hot = 1;
  go_on("40", disturbed);
  int readings = 0;
  record().each_decision([&](const DecisionRow& decision) {
    if (decision.kind != DecisionKind::pace) return;
    ++readings;
    BOOST_TEST(nlohmann::json::parse(decision.body).at("pace").get<double>() > 0.95);
  });
  BOOST_TEST(readings == 1);
  require_replay_agrees();
}

// The two seeds were measured before the device was warm, so everything measured later looks slower.
BOOST_AUTO_TEST_CASE(a_card_that_warms_up_hides_no_better_kernel) {
  Simulation warming;
  warming.evaluate_s = 0.02;
  warming.noise = 0.0;
  warming.cool = 2;
  warming.pace = 0.1;
  const auto search = [&](const std::string& name, const std::string& pace_every) {
    const Config config =
        softmax_config(path() / name, {"budget.evaluations=150", "evaluation.pace_every=" + pace_every});
    run = path() / (name + "_run");
    BOOST_REQUIRE(begin_search(config, run, simulated_runtime(warming), {}, kNever));
    require_replay_agrees();
    return best().id;
  };
  BOOST_TEST(search("never", "1h") <= 2);
  BOOST_TEST(search("often", "1s") > 2);
}

BOOST_AUTO_TEST_CASE(a_file_in_the_inbox_that_is_no_submission_is_put_aside_and_named) {
  begin("20");
  const RunFolder folder(run);
  std::filesystem::create_directories(folder.submissions());
  std::ofstream(folder.submissions() / "mine.json") << "{\"source\": ";
  for (const auto& [name, parents] : {std::pair("stranger", "[99999]"), {"words", "[\"best\"]"}}) {
    nlohmann::json body{
        {"source", softmax_source("mine")}, {"note", ""}, {"configuration", nlohmann::json::object()}};
    body["parents"] = nlohmann::json::parse(parents);
    std::ofstream(folder.submissions() / (name + std::string(".json"))) << body;
  }
  const std::string said = go_on("24", {}, "trouble");
  BOOST_TEST(said.find("mine.json is not a valid submission") != std::string::npos, said);
  BOOST_TEST(said.find("its parent #99999 is not in this run") != std::string::npos, said);
  BOOST_TEST(said.find("`parents` must be a list of individuals' numbers") != std::string::npos, said);
  BOOST_TEST(std::filesystem::exists(folder.damaged() / "stranger.json"));
  BOOST_TEST(std::filesystem::exists(folder.damaged() / "words.json"));
  BOOST_TEST(!std::filesystem::exists(folder.submissions() / "mine.json"));
  BOOST_TEST(std::filesystem::exists(folder.damaged() / "mine.json"));
}

BOOST_AUTO_TEST_CASE(a_decision_of_a_later_version_is_refused_by_its_name_and_changes_nothing) {
  begin("3");
  SQLite::Database db((run / "run.db").string(), SQLite::OPEN_READWRITE);
  const auto require_refused = [&](const std::string& writer) {
    const auto resumed = resume_search(run, {"budget.evaluations=9"}, simulated_runtime({}), {}, kNever);
    const auto replayed = replay(run, simulated_runtime({}));
    BOOST_REQUIRE(!resumed);
    BOOST_REQUIRE(!replayed);
    for (const std::string& told : {resumed.error().text(), replayed.error().text()}) {
      BOOST_TEST(contains(told, "is of kind 'graft', which cultivar " CULTIVAR_VERSION " does not know"),
                 told);
      BOOST_TEST(contains(told, "written by " + writer + ":"), told);
    }
    BOOST_TEST(summary_of(record()).evaluations == 3);
  };
  BOOST_TEST(record().written_by() == "cultivar " CULTIVAR_VERSION);
  db.exec("INSERT INTO decisions (kind, individual, stream, body, elapsed_s) VALUES ('graft', 1, '', '', 9)");
  db.exec("UPDATE meta SET value = '99.1.0' WHERE key = 'version'");
  require_refused("cultivar 99.1.0");
  db.exec("DELETE FROM meta WHERE key = 'version'");  // as records were until they said it
  require_refused("an earlier version of cultivar");
  db.exec("DELETE FROM decisions WHERE kind = 'graft'");
  require_replay_agrees();
}

BOOST_AUTO_TEST_CASE(a_search_that_waits_for_its_first_worker_has_a_record_that_is_resumed) {
  Simulation away;
  std::optional<Summary> seen;
  away.start = [&](const Evaluator::WhileStarting& told) -> Expected<void> {
    BOOST_TEST(told("waiting for worker 1 of 1 to be started by `srun`"));
    seen = summary_of(record());
    return failure("worker measure", "no hello within 6 hours");
  };
  const Config config =
      softmax_config(path() / "config", {"budget.evaluations=4", "evaluation.launcher=[srun]"});
  const auto ended = begin_search(config, run, simulated_runtime(away), {}, kNever);
  BOOST_REQUIRE(!ended);
  BOOST_TEST(contains(ended.error().message, "cultivar resume"), ended.error().message);
  BOOST_REQUIRE(seen);
  BOOST_TEST(seen->state == "waiting for workers");
  BOOST_TEST(seen->alive());
  BOOST_TEST(seen->process.value_or(0) == ::getpid());
  BOOST_REQUIRE(seen->waiting);
  BOOST_TEST(contains(seen->waiting->why, "by `srun`"), seen->waiting->why);
  BOOST_TEST(summary_of(record()).state == "failed");
  BOOST_TEST(contains(summary_of(record()).stop_reason, "no hello within 6 hours"));

  // Neither does this session begin. Its new budget counts from now on.
  Runtime trusting = simulated_runtime(away);
  trusting.trusts_record = true;
  BOOST_REQUIRE(!resume_search(run, {"budget.evaluations=8"}, trusting, {}, kNever));
  BOOST_TEST(summary_of(record()).budget.at("evaluations").limit.value() == 8.0);
  std::atomic<bool> stop{true};
  away.start = [&](const Evaluator::WhileStarting& told) -> Expected<void> {
    if (told("waiting")) return {};
    return failure(ErrorKind::interrupted, "devices", "interrupted while a worker was started");
  };
  trusting = simulated_runtime(away);
  trusting.trusts_record = true;
  BOOST_REQUIRE(!resume_search(run, {}, trusting, {}, stop));
  BOOST_TEST(summary_of(record()).state == "stopped");
  stop = false;
  const auto last = resume_search(run, {}, trusting, {}, stop);
  BOOST_REQUIRE(last);
  BOOST_TEST((last->stop == Outcome::Stop::evaluations), last->reason);
  BOOST_TEST(summary_of(record()).evaluations == 8);
  BOOST_TEST(summary_of(record()).devices.size() == 1U);
  BOOST_TEST(!summary_of(record()).waiting);
  require_replay_agrees();
}

BOOST_AUTO_TEST_CASE(what_a_resume_in_vain_set_holds_for_later_sessions_also_for_the_gate) {
  const Config config =
      softmax_config(path() / "config", {"budget.evaluations=10", "evaluation.launcher=[srun]"});
  BOOST_REQUIRE(begin_search(config, run, simulated_runtime({}), {}, kNever));
  Simulation away;
  away.start = [](const auto&) -> Expected<void> { return failure("worker measure", "no hello"); };
  Runtime trusting = simulated_runtime(away);
  trusting.trusts_record = true;
  BOOST_REQUIRE(!resume_search(run, {}, trusting, {}, kNever));
  BOOST_TEST(summary_of(record()).state == "finished");  // as before
  BOOST_REQUIRE(!resume_search(run, {"budget.evaluations=20", "gate.min_gain=0.03"}, trusting, {}, kNever));
  BOOST_TEST(summary_of(record()).state == "failed");
  trusting = simulated_runtime({});
  trusting.trusts_record = true;
  BOOST_REQUIRE(resume_search(run, {}, trusting, {}, kNever));
  BOOST_TEST(summary_of(record()).evaluations == 20);
  require_replay_agrees();
}

BOOST_AUTO_TEST_CASE(a_new_search_whose_launcher_fails_at_once_leaves_nothing) {
  Simulation away;
  away.start = [](const auto&) -> Expected<void> {
    return failure("worker measure", "cannot start `srunn`");
  };
  const Config config = softmax_config(path() / "config", {"evaluation.launcher=[srunn]"});
  BOOST_REQUIRE(!begin_search(config, run, simulated_runtime(away), {}, kNever));
  BOOST_TEST(!std::filesystem::exists(run));
}

BOOST_AUTO_TEST_CASE(a_launcher_in_a_record_runs_only_with_the_users_word) {
  const Config config = softmax_config(
      path() / "config", {"budget.evaluations=4", "evaluation.launcher=[sh, -c, \"evil \\u001b[2J\"]"});
  BOOST_REQUIRE(begin_search(config, run, simulated_runtime({}), {}, kNever));
  try {
    (void)resume_search(run, {"budget.evaluations=6"}, simulated_runtime({}), {}, kNever);
    BOOST_ERROR("the launcher ran");
  } catch (const InputError& error) {
    const std::string words = error.what();
    BOOST_TEST(contains(words, "the launcher: sh -c evil"), words);
    BOOST_TEST(contains(words, "add --trust"), words);
    BOOST_TEST(words.find('\x1b') == words.npos, words);
  }
  Runtime trusting = simulated_runtime({});
  trusting.trusts_record = true;
  BOOST_TEST(resume_search(run, {"budget.evaluations=6"}, trusting, {}, kNever).has_value());
  require_replay_agrees();  // which starts nothing
}

BOOST_AUTO_TEST_SUITE_END()
