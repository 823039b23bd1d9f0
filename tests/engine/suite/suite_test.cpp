// SPDX-License-Identifier: Apache-2.0
// Suites of searches with the simulated evaluator: the file, resuming, failures, and the table from the
// records.
#include "engine/suite/suite.hpp"

#include <boost/test/unit_test.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/suite/suite_page.hpp"
#include "engine/suite/suite_run.hpp"
#include "support/contains.hpp"
#include "support/scripted_search.hpp"

using namespace cultivar;
using namespace cultivar::testing;
namespace fs = std::filesystem;

namespace {

const std::atomic<bool> kNever{false}, kAtOnce{true};
const Installation kInstallation{std::string(CULTIVAR_SOURCE_DIR) + "/configs/tasks"};

const std::string kCommon =
    "name: pair\n"
    "common: {workloads: cpu_quick, holdout: cpu_holdout, budget: {evaluations: 12}, seed: 7}\n"
    "tasks:\n";
const std::string kPair =
    "  - {name: first, task: softmax, seeds: [plain.cpp, fast.cpp]}\n"
    "  - {name: second, task: softmax, seeds: [plain.cpp], budget: {evaluations: 6}}\n";

struct Folder : ScratchFolder {
  Folder() { softmax_config(path()); }
  Suite load(const std::string& text, const std::vector<std::string>& overrides = {}) {
    std::ofstream(path() / "suite.yaml") << text;
    return load_suite(path() / "suite.yaml", overrides, kInstallation);
  }
  std::string complaint(const std::string& text, const std::vector<std::string>& overrides = {}) {
    try {
      load(text, overrides);
    } catch (const InputError& error) {
      return error.what();
    }
    return "no complaint";
  }
  SuiteTaskEnd step(const SuiteTask& task, const std::atomic<bool>& stop = kNever,
                    const Simulation& simulation = {}) {
    const auto next = next_step(task, path() / task.name);
    BOOST_REQUIRE_MESSAGE(next, (next ? "" : next.error().text()));
    return take_step(task, *next, path() / task.name, simulated_runtime(simulation), {}, stop);
  }
  SuiteStep::Kind left(const SuiteTask& task) { return next_step(task, path() / task.name)->kind; }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(suite, Folder)

BOOST_AUTO_TEST_CASE(a_task_has_the_common_keys_and_its_own) {
  const Suite pair = load(kCommon + "  - {task: softmax, seeds: [plain.cpp]}\n" + kPair, {"budget.wall=90s"});
  BOOST_TEST(pair.name == "pair");
  BOOST_TEST_REQUIRE(pair.tasks.size() == 3U);
  BOOST_TEST(pair.tasks[0].name == "softmax");
  BOOST_TEST(pair.tasks[0].config.budget.evaluations == 12);
  BOOST_TEST(pair.tasks[0].config.budget.wall_s == 90.0);
  BOOST_TEST(pair.tasks[2].config.budget.evaluations == 6);
  BOOST_TEST(pair.tasks[2].config.seed == 7U);
}

BOOST_AUTO_TEST_CASE(every_wrong_task_is_named_with_its_line) {
  const std::string text =
      complaint(kCommon + "  - {task: sofmax}\n  - {task: softmax, seds: [plain.cpp]}\n" + kPair);
  BOOST_TEST(contains(text, "suite.yaml:4: tasks[0].task: there is no task 'sofmax'"), text);
  BOOST_TEST(contains(text, "suite.yaml:5: "), text);
  BOOST_TEST(contains(text, "did you mean 'seeds'"), text);
  BOOST_TEST(contains(complaint(kCommon + kPair + kPair), "two searches are named 'first'"));
  BOOST_TEST(
      contains(complaint("name: x\ntasks:\n  - {task: softmax, workloads: cpu_quick}\n"), "has no budget"));
  BOOST_TEST(contains(complaint("name: x\ntasks: []\n"), "the list is empty"));
  BOOST_TEST(contains(complaint("name: a/b\ntasks: []\n"), "must not contain a slash"));
}

BOOST_AUTO_TEST_CASE(what_is_wrong_for_all_tasks_is_said_once) {
  for (const std::string set : {"budget.evaluations=many", "bugdet.wall=5m"}) {
    const std::string text = complaint(kCommon + kPair, {set});
    const std::string key = set.substr(0, set.find('='));
    BOOST_TEST(contains(text, key), text);
    BOOST_TEST(!contains(text, "\n"), text);
    BOOST_TEST(!contains(text, "tasks["), text);
  }
  std::string common = kCommon;
  const std::string text = complaint(common.replace(common.find("seed: 7"), 7, "seed: x") + kPair);
  BOOST_TEST(contains(text, "suite.yaml:2: seed: "), text);
  BOOST_TEST(!contains(text, "\n"), text);
}

BOOST_AUTO_TEST_CASE(a_suite_goes_on_where_it_was_interrupted_and_with_a_larger_budget) {
  const Suite pair = load(kCommon + kPair);
  BOOST_CHECK(left(pair.tasks[0]) == SuiteStep::Kind::begin);
  const SuiteTaskEnd stopped = step(pair.tasks[0], kAtOnce);
  BOOST_TEST(stopped.interrupted);
  BOOST_CHECK(left(pair.tasks[0]) == SuiteStep::Kind::resume);
  BOOST_TEST(step(pair.tasks[0]).trouble == "");
  BOOST_CHECK(left(pair.tasks[0]) == SuiteStep::Kind::done);
  const Suite longer = load(kCommon + kPair, {"budget.evaluations=20"});
  BOOST_CHECK(left(longer.tasks[0]) == SuiteStep::Kind::resume);
  BOOST_TEST(step(longer.tasks[0]).trouble == "");
  BOOST_TEST(row_of(longer.tasks[0], path() / "first", "", {}).evaluations >= 20);
  BOOST_CHECK(left(pair.tasks[0]) == SuiteStep::Kind::done);

  Suite other = load(kCommon + "  - {name: first, task: rmsnorm}\n");
  const auto refused = next_step(other.tasks[0], path() / "first");
  BOOST_TEST_REQUIRE(!refused);
  BOOST_TEST(contains(refused.error().text(), "a search of another task"), refused.error().text());
}

BOOST_AUTO_TEST_CASE(the_table_says_what_made_each_best_and_what_failed) {
  const Suite pair = load(kCommon + kPair);
  Simulation failing;
  failing.evaluate_instead = [](const Variant&) -> Expected<Evaluation> {
    return rejection(Stage::smoke, "wrong rows", "");
  };
  BOOST_TEST(step(pair.tasks[0]).trouble == "");
  const std::string trouble = step(pair.tasks[1], kNever, failing).trouble;
  BOOST_TEST(contains(trouble, "smoke: wrong rows"), trouble);
  const std::vector<SuiteRow> rows{row_of(pair.tasks[0], path() / "first", "", {}),
                                   row_of(pair.tasks[1], path() / "second", trouble, {})};
  BOOST_TEST_REQUIRE(rows[0].best.has_value());
  const SuiteBest& best = *rows[0].best;
  BOOST_TEST(best.given());  // tune changes values alone
  BOOST_TEST(!best.installed_seed);
  BOOST_TEST(made_text(best).starts_with("seed "), made_text(best));
  const fs::path installed = path() / "installed";
  fs::create_directories(installed / "softmax/seeds");
  fs::copy_file(path() / best.seed, installed / "softmax/seeds" / best.seed);
  const auto again = row_of(pair.tasks[0], path() / "first", "", installed);
  BOOST_TEST(made_text(*again.best) == "hand-written " + made_text(best));
  std::ofstream(installed / "softmax/seeds" / best.seed, std::ios::app) << "// changed\n";
  BOOST_TEST(!row_of(pair.tasks[0], path() / "first", "", installed).best->installed_seed);
  BOOST_TEST(best.over_best_seed >= 1.0);
  BOOST_TEST(best.lineage.back().individual.id == best.id);
  BOOST_TEST(!rows[1].best.has_value());

  const std::string page = suite_page(pair.name, rows, "2026-01-01");
  for (const std::string part :
       {"# Suite pair", "| first (softmax) | cpu_quick |", "## Failures", "second: no seed", "Lineage:"})
    BOOST_TEST(contains(page, part), part << "\n" << page);
  const auto facts = suite_facts(pair.name, rows, "2026-01-01");
  BOOST_TEST(facts["tasks"][0]["best"]["id"] == best.id);
  BOOST_TEST(facts["tasks"][0]["best"]["hand_written"] == true);
  BOOST_TEST(facts["tasks"][1]["best"].is_null());
  BOOST_TEST(suite_cells(rows).at(2).at(2) == "none");
}

BOOST_AUTO_TEST_CASE(a_fitness_of_the_search_is_told_from_one_of_a_confirmation) {
  SuiteRow row;
  row.best.emplace();
  row.best->fitness = 5.0;
  row.best->unit = "GB/s";
  BOOST_TEST(suite_cells({row}).at(1).at(2) == "5 GB/s during the search, not confirmed");
  row.best->confirmed = true;
  const auto cells = suite_cells({row});
  BOOST_TEST(cells.at(0).at(2) == "best (confirmed)");
  BOOST_TEST(cells.at(1).at(2) == "5 GB/s");
}

BOOST_AUTO_TEST_CASE(fitnesses_of_the_search_and_of_the_confirmation_that_are_far_apart_are_noted) {
  SuiteRow row;
  row.name = "softmax";
  row.best.emplace();
  row.best->id = 7;
  row.best->unit = "GB/s";
  row.best->confirmed = true;
  row.best->searched = 12.0;
  row.best->fitness = 10.0;
  BOOST_TEST(suite_notes({row}).empty());
  row.best->fitness = 5.0;
  const std::string slower = suite_page("suite", {row}, "");
  BOOST_TEST(
      contains(slower, "softmax: #7 reached 5 GB/s in its confirmation and 12 during the search, 2.4 x"),
      slower);
  BOOST_TEST(contains(slower, "other load during the confirmation"), slower);
  row.best->fitness = 24.0;
  BOOST_TEST(contains(suite_notes({row}).at(0), "other load during the search"));
  row.best->confirmed = false;
  BOOST_TEST(suite_notes({row}).empty());
}

BOOST_AUTO_TEST_CASE(rivals_are_compared_by_workload) {
  SuiteBest best;
  best.source_by = best.made_by = "mutate";
  best.model = "claude";
  best.seed = "naive.cpp";
  BOOST_TEST(made_text(best) == "written by mutate with claude, from seed naive.cpp");
  best.made_by = "tune";
  BOOST_TEST(made_text(best) == "written by mutate with claude, from seed naive.cpp, values by tune");
  best.source_by = best.made_by = "seed";
  BOOST_TEST(made_text(best) == "seed naive.cpp, as given");
  best.installed_seed = true;
  BOOST_TEST(made_text(best) == "hand-written seed naive.cpp, as given");
  best.source_by = best.made_by = "submit";
  BOOST_TEST(made_text(best) == "submission, as given");
}

BOOST_AUTO_TEST_CASE(the_share_of_the_peak_says_which_and_its_highest_value) {
  SuiteRow row;
  row.best.emplace();
  BOOST_TEST(suite_cells({row}).at(1).at(4) == "");
  row.best->share = {.mean = 0.0164, .lowest = 0.01, .highest = 0.0211, .lowest_on = "w"};
  for (const auto& [peak, words] : {std::pair("arithmetic peak", "arithmetic peak"), {"copy", "copy rate"}}) {
    row.best->peak = peak;
    BOOST_TEST(suite_cells({row}).at(1).at(4) == "0.0164 of the " + std::string(words) + " (at most 0.0211)");
  }
  BOOST_TEST(contains(suite_page("suite", {row}, ""), "`share of peak` is a geometric mean too"));
}

BOOST_AUTO_TEST_SUITE_END()
