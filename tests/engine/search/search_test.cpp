// SPDX-License-Identifier: Apache-2.0
// Whole searches over a simulated evaluator: the real loop, record, gate and operators.
#include "engine/search/search.hpp"

#include <SQLiteCpp/Database.h>
#include <fmt/format.h>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <fstream>
#include <map>
#include <set>
#include <thread>

#include "engine/store/record.hpp"
#include "engine/store/run_folder.hpp"
#include "engine/store/summary.hpp"
#include "support/simulated_evaluator.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace {

const std::atomic<bool> kNever{false};

Runtime runtime(const Simulation& simulation) {
  Runtime s;
  s.installation.tasks = std::string(CULTIVAR_SOURCE_DIR) + "/configs/tasks";
  s.evaluator = [simulation](const Config&, const std::filesystem::path&) {
    return std::make_unique<SimulatedEvaluator>(simulation);
  };
  return s;
}

Outcome run_search(const ScratchFolder& scratch, const std::vector<std::string>& overrides,
                   const Simulation& simulation = {}, const SearchCallbacks& callbacks = {},
                   const std::atomic<bool>& stop = kNever) {
  const Config config = softmax_config(scratch.path() / "config", overrides);
  auto outcome = begin_search(config, scratch.path() / "run", runtime(simulation), callbacks, stop);
  BOOST_REQUIRE_MESSAGE(outcome, (outcome ? "" : outcome.error().message));
  return *outcome;
}

Record record_of(const ScratchFolder& scratch) {
  auto record = Record::open(scratch.path() / "run");
  BOOST_REQUIRE(record);
  return std::move(*record);
}

void require_replay_agrees(const ScratchFolder& scratch) {
  const auto report = replay(scratch.path() / "run", runtime({}));
  BOOST_REQUIRE_MESSAGE(report, (report ? "" : report.error().message));
  for (const std::string& difference : report->differences) BOOST_ERROR(difference);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(search)

BOOST_AUTO_TEST_CASE(finds_a_much_better_variant_and_records_how) {
  ScratchFolder scratch;
  const Outcome outcome = run_search(scratch, {"budget.evaluations=80"});
  BOOST_TEST((outcome.stop == Outcome::Stop::evaluations), outcome.reason);
  const Record record = record_of(scratch);
  const Summary summary = summary_of(record);
  BOOST_TEST(summary.state == "finished");
  BOOST_TEST(summary.evaluations == 80);
  BOOST_TEST(summary.in_flight == 0);
  std::int64_t rejected = 0;
  for (const auto& [stage, count] : summary.rejected) rejected += count;
  BOOST_TEST(summary.measured + rejected == 80);
  BOOST_REQUIRE(summary.best);
  BOOST_TEST(summary.best->id == outcome.best);
  // The optimum is about 25; the first seed is at about 4.
  BOOST_TEST(summary.best->fitness > 20.0);
  BOOST_TEST(summary.best->ratio_to_seed.value() > 4.0);
  // Side by side in the confirmation, which follows no chain of duels.
  BOOST_TEST(summary.best->seed_beside);
  const Evaluation confirmed = record.confirmation(summary.best->id).value();
  BOOST_TEST(summary.best->ratio_to_seed.value() ==
                 confirmed.workloads.front().incumbent_us / confirmed.workloads.front().median_us,
             boost::test_tools::tolerance(1e-9));

  const auto promotions = record.promotions();
  BOOST_REQUIRE(promotions.size() >= 2);
  for (std::size_t i = 1; i < promotions.size(); ++i) {
    BOOST_TEST(promotions[i].fitness > promotions[i - 1].fitness);
    const auto duels =
        record.duels(promotions[i].individual);  // no kernel replaces an incumbent without a duel
    BOOST_REQUIRE(!duels.empty());
    BOOST_TEST((duels.back().verdict == Verdict::better));
    BOOST_TEST(duels.back().incumbent == promotions[i - 1].individual);
    BOOST_REQUIRE(record.confirmation(promotions[i].individual));
  }
  const auto line = record.lineage(outcome.best);
  BOOST_TEST((line.front().individual.descent.origin == Origin::seed));
  BOOST_TEST(line.back().individual.id == outcome.best);
  const auto evaluation = record.evaluation(outcome.best);
  BOOST_REQUIRE(evaluation);
  BOOST_TEST(evaluation->workloads.size() == 3);
  BOOST_TEST(evaluation->workloads.front().samples.size() == 3);
  require_replay_agrees(scratch);
}

BOOST_AUTO_TEST_CASE(a_replay_notices_a_promotion_without_its_confirmation) {
  ScratchFolder scratch;
  const Outcome outcome = run_search(scratch, {"budget.evaluations=20"});
  SQLite::Database((scratch.path() / "run" / "run.db").string(), SQLite::OPEN_READWRITE)
      .exec(fmt::format("DELETE FROM evaluations WHERE kind = 'confirm' AND individual = {}", outcome.best));
  const auto report = replay(scratch.path() / "run", runtime({}));
  BOOST_REQUIRE(report);
  BOOST_TEST(report->differences.size() == 1U);
}

BOOST_AUTO_TEST_CASE(one_seed_gives_one_record) {
  ScratchFolder a, b, c;
  // One at a time: with several in flight, the order of the results depends on the machine and not on the
  // seed.
  for (ScratchFolder* scratch : {&a, &b})
    run_search(*scratch, {"budget.evaluations=40", "evaluation.depth=1"});
  run_search(c, {"budget.evaluations=40", "evaluation.depth=1", "seed=8"});
  const auto ids = [](const ScratchFolder& scratch) {
    std::vector<std::string> all;
    record_of(scratch).each_individual(
        [&](const IndividualRow& row) { all.push_back(row.individual.variant_id); });
    return all;
  };
  BOOST_TEST(ids(a) == ids(b), boost::test_tools::per_element());
  BOOST_TEST((ids(a) != ids(c)));
}

BOOST_AUTO_TEST_CASE(a_device_that_stays_wedged_is_skipped_and_the_others_continue) {
  ScratchFolder scratch;
  std::atomic<int> tried{0};
  Simulation simulation;
  simulation.evaluate_s = 0.002;
  simulation.device_workers = 2;
  simulation.has_no_worker = [&](int worker) { return worker == 1 && ++tried > 0; };
  const Outcome outcome = run_search(scratch, {"budget.evaluations=40", "evaluation.depth=4"}, simulation);
  BOOST_TEST((outcome.stop == Outcome::Stop::evaluations));
  const Record record = record_of(scratch);
  BOOST_TEST(summary_of(record).evaluations == 40);
  BOOST_TEST(tried.load() == 2);
  int told = 0;
  for (const auto& event : record.events(10'000))
    told += event.kind == "trouble" && event.text.find("it is not used again") != std::string::npos;
  BOOST_TEST(told == 1);
}

BOOST_AUTO_TEST_CASE(equal_machine_code_is_recorded_but_not_measured) {
  ScratchFolder scratch;
  std::map<std::string, int> measured;
  std::mutex mutex;
  Simulation simulation;
  simulation.on_evaluate = [&](const Variant& variant) {
    Configuration used = variant.configuration;
    used.erase("UNUSED");
    std::string key = variant.manifest.name;
    for (const auto& [name, value] : used) key += " " + name + to_string(value);
    const std::lock_guard lock(mutex);
    ++measured[key];
  };
  run_search(scratch, {"budget.evaluations=120"}, simulation);
  const Record record = record_of(scratch);
  std::map<std::string, int> confirmations;
  int duplicates = 0;
  record.each_individual([&](const IndividualRow& row) {
    if (row.individual.duplicate_of == 0) return;
    ++duplicates;
    BOOST_TEST(row.stage == "screen");
    BOOST_TEST(row.individual.machine_code ==
               record.individual(row.individual.duplicate_of)->individual.machine_code);
  });
  BOOST_TEST(duplicates > 0);  // few: the tuner learns which settings give a known kernel
  for (const PromotionRow& promotion : record.promotions())
    ++confirmations[record.individual(promotion.individual)->individual.machine_code];
  int twice = 0;
  for (const auto& [key, times] : measured) twice += times > 1;
  BOOST_TEST(twice <= static_cast<int>(record.promotions().size()));  // only for a confirmation
  require_replay_agrees(scratch);
}

BOOST_AUTO_TEST_CASE(a_crash_and_a_compile_failure_are_values_in_the_record) {
  ScratchFolder scratch;
  run_search(scratch, {"budget.evaluations=150"});
  const Summary summary = summary_of(record_of(scratch));
  BOOST_TEST(summary.rejected.at(Stage::compile) > 0);
  BOOST_TEST(summary.rejected.at(Stage::smoke) > 0);
}

BOOST_AUTO_TEST_CASE(stops_when_the_whole_space_was_tried) {
  ScratchFolder scratch;
  const Config config = [&] {
    Config c = softmax_config(scratch.path() / "config", {"budget.evaluations=100000"});
    std::string small = softmax_source("softmax_small");
    const auto cut = [&](const std::string& from, const std::string& to) {
      small.replace(small.find(from), from.size(), to);
    };
    cut("[16, 32, 48, 64, 96, 128, 192, 256]", "[16, 32]");
    cut("[1, 2, 4, 8, 16]", "[1, 2]");
    cut("[1, 2, 4, 8]", "[1, 2]");
    std::ofstream(scratch.path() / "config" / "small.cpp") << small;
    c.seeds = {scratch.path() / "config" / "small.cpp"};
    return c;
  }();
  const auto outcome = begin_search(config, scratch.path() / "run", runtime({}), {}, kNever);
  BOOST_REQUIRE(outcome);
  BOOST_TEST((outcome->stop == Outcome::Stop::exhausted), outcome->reason);
  BOOST_TEST(summary_of(record_of(scratch)).evaluations == 2 * 2 * 2 * 2 * 2);
}

BOOST_AUTO_TEST_CASE(a_search_in_which_no_seed_works_fails_and_says_so) {
  ScratchFolder scratch;
  Simulation simulation;
  simulation.evaluate_instead = [](const Variant&) -> Expected<Evaluation> {
    return rejection(Stage::edge, "wrong", "");
  };
  const Outcome outcome = run_search(scratch, {}, simulation);
  BOOST_TEST((outcome.stop == Outcome::Stop::failed));
  BOOST_TEST(outcome.reason.find("no seed") != std::string::npos, outcome.reason);
  BOOST_TEST(summary_of(record_of(scratch)).rejected.at(Stage::edge) == 2);
}

BOOST_AUTO_TEST_CASE(what_is_promoted_is_profiled_where_the_configuration_asks_for_it) {
  ScratchFolder scratch, without;
  run_search(scratch, {"budget.evaluations=60", "evaluation.profile=elites"});
  const Record record = record_of(scratch);
  const auto promotions = record.promotions();
  BOOST_REQUIRE(!promotions.empty());
  const auto profile = record.profile(promotions.back().individual);  // older ones may have been overtaken
  BOOST_REQUIRE(profile);
  BOOST_TEST(profile->set == "quick");
  BOOST_TEST(profile->variant == record.individual(promotions.back().individual)->individual.variant_id);
  bool told = false;
  for (const EventRow& event : record.events(10'000)) told = told || event.kind == "profiled";
  BOOST_TEST(told);
  require_replay_agrees(scratch);
  run_search(without, {"budget.evaluations=30"});  // a cpu search does not, unless asked
  for (const PromotionRow& promotion : record_of(without).promotions())
    BOOST_TEST(!record_of(without).profile(promotion.individual));
}

// All workloads take equally long here, so that the largest is nearest to the peak.
BOOST_AUTO_TEST_CASE(the_workload_with_the_most_room_is_profiled_where_the_largest_is_near_the_peak) {
  ScratchFolder scratch;
  Simulation simulation;
  const double largest_bytes = 2.0 * 8192 * 4096 * 4, peak_us = 60.0;
  simulation.ceilings.bytes_per_second = largest_bytes / (peak_us * 1e-6);
  run_search(scratch, {"budget.evaluations=60", "evaluation.profile=elites"}, simulation);
  const Record record = record_of(scratch);
  int near = 0;
  for (IndividualId id = 1; id <= 60; ++id) {
    const auto profile = record.profile(id);
    if (!profile) continue;
    const auto evaluation = record.evaluation(id);
    BOOST_REQUIRE(evaluation);
    const double share = peak_us / evaluation->workloads.front().median_us;
    BOOST_TEST_CONTEXT("#" << id << ", largest at " << share)
    BOOST_TEST((profile->workload == "R8192_C4096_f32") == (share < 0.85));
    near += share >= 0.85 ? 1 : 0;
  }
  BOOST_TEST(near > 0);
}

BOOST_AUTO_TEST_CASE(a_search_without_permission_to_profile_says_so_once_and_continues) {
  ScratchFolder scratch;
  Simulation simulation;
  simulation.profile_instead = [](const Variant&) -> Expected<ProfilePartial> {
    return failure("profile", "the worker was lost twice");
  };
  const Outcome outcome =
      run_search(scratch, {"budget.evaluations=60", "evaluation.profile=elites"}, simulation);
  BOOST_TEST((outcome.stop == Outcome::Stop::evaluations), outcome.reason);
  const Record record = record_of(scratch);
  int told = 0;
  for (const EventRow& event : record.events(10'000))
    told +=
        event.kind == "trouble" && event.text.find("no profile: the worker was lost") != std::string::npos;
  BOOST_TEST(told == 1);
  BOOST_TEST(record.promotions().size() >= 2u);
}

BOOST_AUTO_TEST_CASE(what_fails_its_confirmation_is_never_promoted) {
  ScratchFolder scratch;
  Simulation simulation;
  simulation.refuse_confirmation = true;
  const Outcome outcome = run_search(scratch, {}, simulation);
  BOOST_TEST(outcome.best == 0);
  const Record record = record_of(scratch);
  BOOST_TEST(record.promotions().empty());
  BOOST_TEST(!record.best());
  BOOST_TEST(record.individual(1)->expelled);
}

// A kernel may compile for all workloads of the search and not for another shape that it claims.
BOOST_AUTO_TEST_CASE(what_does_not_compile_for_its_confirmation_makes_room_for_the_next) {
  ScratchFolder scratch;
  Simulation simulation;
  simulation.narrow = true;
  const Outcome outcome = run_search(scratch, {"budget.evaluations=120"}, simulation);
  BOOST_TEST((outcome.stop == Outcome::Stop::evaluations), outcome.reason);
  const Record record = record_of(scratch);
  BOOST_TEST(!record.promotions().empty());  // before such a one or after it
  int refused = 0;
  for (const EventRow& event : record.events(10'000)) {
    BOOST_TEST(event.kind != "trouble", event.text);
    if (event.kind != "refused") continue;
    ++refused;
    BOOST_TEST(event.text.find("failed its confirmation at screen: spills where D is 256") !=
               std::string::npos);
    for (const DuelRow& duel : record.duels()) BOOST_TEST(duel.challenger != event.individual);  // in vain
  }
  BOOST_TEST(refused >= 1);
}

BOOST_AUTO_TEST_CASE(an_interrupted_search_resumes_where_it_was) {
  ScratchFolder scratch;
  std::atomic<bool> stop{false};
  std::atomic<int> evaluations{0};
  Simulation simulation;
  simulation.evaluate_s = 0.01;
  simulation.on_evaluate = [&](const Variant&) { stop = ++evaluations >= 25; };
  const auto began = std::chrono::steady_clock::now();
  const Outcome first = run_search(scratch, {"budget.evaluations=60"}, simulation, {}, stop);
  BOOST_TEST((first.stop == Outcome::Stop::interrupted));
  BOOST_TEST((std::chrono::steady_clock::now() - began < std::chrono::seconds(20)));
  const Summary between = summary_of(record_of(scratch));
  BOOST_TEST(between.state == "stopped");
  BOOST_TEST(between.evaluations < 60);
  BOOST_TEST(!std::filesystem::is_empty(scratch.path() / "run" / "checkpoints"));

  const auto second = resume_search(scratch.path() / "run", {}, runtime({}), {}, kNever);
  BOOST_REQUIRE_MESSAGE(second, (second ? "" : second.error().message));
  BOOST_TEST((second->stop == Outcome::Stop::evaluations), second->reason);
  const Record record = record_of(scratch);
  BOOST_TEST(summary_of(record).evaluations == 60);
  BOOST_TEST(summary_of(record).in_flight == 0);
  BOOST_TEST(record.count() == 60);
  BOOST_TEST(summary_of(record).elapsed_s >= between.elapsed_s);
  require_replay_agrees(scratch);
}

BOOST_AUTO_TEST_CASE(a_finished_search_takes_a_bigger_budget) {
  ScratchFolder scratch;
  run_search(scratch, {"budget.evaluations=30"});
  const auto again =
      resume_search(scratch.path() / "run", {"budget.evaluations=50"}, runtime({}), {}, kNever);
  BOOST_REQUIRE(again);
  BOOST_TEST(summary_of(record_of(scratch)).evaluations == 50);
  BOOST_TEST(summary_of(record_of(scratch)).budget.at("evaluations").limit.value() == 50);
  require_replay_agrees(scratch);
  BOOST_CHECK_THROW(resume_search(scratch.path() / "run", {"seed=3"}, runtime({}), {}, kNever), InputError);
}

BOOST_AUTO_TEST_CASE(the_wall_clock_budget_counts_all_sessions_and_stops_soon_after_it) {
  ScratchFolder scratch;
  Simulation simulation;
  simulation.evaluate_s = 0.05;
  simulation.noise = 0.0;
  const Outcome outcome = run_search(scratch, {"budget={wall: 2s}"}, simulation);
  BOOST_TEST((outcome.stop == Outcome::Stop::wall), outcome.reason);
  const Summary summary = summary_of(record_of(scratch));
  BOOST_TEST(summary.elapsed_s >= 2.0);
  BOOST_TEST(summary.elapsed_s < 8.0);
  const auto again = resume_search(scratch.path() / "run", {}, runtime(simulation), {}, kNever);
  BOOST_REQUIRE(again);
  BOOST_TEST((again->stop == Outcome::Stop::wall));
  BOOST_TEST(summary_of(record_of(scratch)).elapsed_s < summary.elapsed_s + 4.0);
}

// Otherwise all measurements would be lost.
BOOST_AUTO_TEST_CASE(the_first_confirmation_may_end_long_after_the_wall_clock_budget) {
  ScratchFolder scratch;
  Simulation simulation;
  simulation.evaluate_s = 0.02;
  simulation.confirm_s = 7.0;  // more than the five seconds that everything else has
  BOOST_TEST((run_search(scratch, {"budget={wall: 1s}"}, simulation).stop == Outcome::Stop::wall));
  BOOST_TEST(summary_of(record_of(scratch)).best.has_value());
  BOOST_TEST(summary_of(record_of(scratch)).elapsed_s < 151.0);
}

BOOST_AUTO_TEST_CASE(a_search_that_cannot_begin_leaves_no_folder) {
  ScratchFolder scratch;
  Runtime broken = runtime({});
  broken.evaluator = [](const Config&, const std::filesystem::path&) -> std::unique_ptr<Evaluator> {
    throw MissingError("no compiler");
  };
  const Config config = softmax_config(scratch.path() / "config", {});
  BOOST_CHECK_THROW(begin_search(config, scratch.path() / "run", broken, {}, kNever), MissingError);
  BOOST_TEST(!std::filesystem::exists(scratch.path() / "run"));
}

BOOST_AUTO_TEST_CASE(compilers_rest_while_something_is_timed) {
  ScratchFolder scratch;
  Simulation simulation;
  simulation.quiet = true;
  simulation.compile_s = 0.003;
  simulation.evaluate_s = 0.003;
  const Outcome outcome = run_search(scratch, {"budget.evaluations=40"}, simulation);
  BOOST_TEST((outcome.stop == Outcome::Stop::evaluations));
  require_replay_agrees(scratch);
}

BOOST_AUTO_TEST_CASE(a_second_process_on_the_same_run_is_told_which_process_has_it) {
  ScratchFolder scratch;
  run_search(scratch, {"budget.evaluations=5"});
  const auto lock = RunLock::take(RunFolder(scratch.path() / "run"));
  BOOST_REQUIRE(lock);
  const auto second = resume_search(scratch.path() / "run", {}, runtime({}), {}, kNever);
  BOOST_REQUIRE(!second);
  BOOST_TEST(second.error().message.find(std::to_string(getpid())) != std::string::npos,
             second.error().message);
  const auto begun = begin_search(softmax_config(scratch.path() / "config"), scratch.path() / "run",
                                  runtime({}), {}, kNever);
  BOOST_REQUIRE(!begun);
  BOOST_TEST(begun.error().message.find("already holds a run") != std::string::npos);
}

// Regression: the loser wrote to the folder before it took the lock, which broke the winner.
BOOST_AUTO_TEST_CASE(a_search_started_in_a_folder_of_another_search_writes_nothing_there) {
  ScratchFolder scratch;
  const auto folder = scratch.path() / "run";
  std::filesystem::create_directories(folder);
  const Config config = softmax_config(scratch.path() / "config", {"budget.evaluations=5"});
  {
    const auto lock = RunLock::take(RunFolder(folder));
    BOOST_REQUIRE(lock);
    const auto second = begin_search(config, folder, runtime({}), {}, kNever);
    BOOST_REQUIRE(!second);
    BOOST_TEST(second.error().message.find("in use by process") != std::string::npos, second.error().message);
    std::vector<std::string> there;
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      there.push_back(entry.path().filename().string());
    BOOST_REQUIRE(there.size() == 1U);
    BOOST_TEST(there.front() == RunFolder(folder).lock().filename().string());
  }
  std::vector<std::thread> threads;
  std::atomic<int> begun = 0;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back(
        [&] { begun += begin_search(config, scratch.path() / "race", runtime({}), {}, kNever) ? 1 : 0; });
  for (std::thread& thread : threads) thread.join();
  BOOST_TEST(begun.load() == 1);
  BOOST_TEST(summary_of(*Record::open(scratch.path() / "race")).evaluations == 5);
}

BOOST_AUTO_TEST_CASE(the_run_folder_may_be_moved_and_the_task_edited) {
  ScratchFolder scratch;
  run_search(scratch, {"budget.evaluations=12"});
  std::filesystem::remove_all(scratch.path() / "config");
  std::filesystem::rename(scratch.path() / "run", scratch.path() / "moved");
  std::ofstream(scratch.path() / "moved" / "task" / "softmax" / "task.yaml") << "name: other\n";
  const auto again =
      resume_search(scratch.path() / "moved", {"budget.evaluations=20"}, runtime({}), {}, kNever);
  BOOST_REQUIRE_MESSAGE(again, (again ? "" : again.error().message));
  BOOST_TEST(summary_of(*Record::open(scratch.path() / "moved")).evaluations == 20);
}

BOOST_AUTO_TEST_SUITE_END()
