// SPDX-License-Identifier: Apache-2.0
// Suites of searches with the simulated evaluator: the file, resuming, failures, and the table from the
// records.
#include "engine/suite/suite.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

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
  SuiteTaskEnd turn(const SuiteTask& task, double seconds, const Simulation& simulation = {}) {
    Runtime runtime = simulated_runtime(simulation);
    runtime.turn_s = seconds;
    runtime.trusts_record = true;  // its mailbox
    return take_step(task, *next_step(task, path() / task.name), path() / task.name, runtime, {}, kNever);
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

BOOST_AUTO_TEST_CASE(a_turn_ends_a_search_that_could_go_on_and_the_next_one_continues_it) {
  const Suite one = load(
      "name: one\ncommon: {workloads: cpu_quick, budget: {wall: 10m}}\ntasks: [{name: first, task: softmax, "
      "seeds: [plain.cpp]}]\n");
  Simulation slow;
  slow.evaluate_s = 0.05;
  const SuiteTaskEnd end = turn(one.tasks[0], 0.5, slow);
  BOOST_TEST(end.trouble == "");
  BOOST_TEST(end.turn_over);
  BOOST_TEST(!end.interrupted);
  BOOST_CHECK(left(one.tasks[0]) == SuiteStep::Kind::resume);
  const SuiteRow row = row_of(one.tasks[0], path() / "first", "", {});
  BOOST_TEST(row.state == "stopped");
  const std::int64_t before = row.evaluations;
  BOOST_TEST(before > 0);
  BOOST_TEST(turn(one.tasks[0], 0.5, slow).turn_over);
  BOOST_TEST(row_of(one.tasks[0], path() / "first", "", {}).evaluations > before);
}

BOOST_AUTO_TEST_CASE(a_turn_ends_when_only_letters_are_out_and_their_answers_are_evaluated_in_the_next) {
  const Suite one = load(
      "name: one\n"
      "common:\n"
      "  workloads: cpu_quick\n"
      "  budget: {wall: 10m}\n"
      "  operators: {mutate: 1}\n"
      "  asking: {in_flight: 1}\n"
      "  models: {m: {provider: mailbox, folder: \"{run}/letters\"}}\n"
      "tasks: [{name: first, task: softmax, seeds: [plain.cpp]}]\n");
  const fs::path letters = path() / "first/letters";
  const auto requests = [&] {
    std::vector<fs::path> files;
    for (const auto& file : fs::directory_iterator(letters / "requests"))
      if (file.path().extension() == ".md") files.push_back(file.path());
    return files;
  };
  const SuiteTaskEnd first = turn(one.tasks[0], 600.0);
  BOOST_TEST(first.trouble == "");
  BOOST_TEST(first.waits_for_letters);
  BOOST_TEST(row_of(one.tasks[0], path() / "first", "", {}).evaluations == 1);
  BOOST_TEST_REQUIRE(requests().size() == 1U);
  BOOST_CHECK(left(one.tasks[0]) == SuiteStep::Kind::waits);
  const fs::path request = requests().front();
  std::stringstream text;
  text << std::ifstream(request).rdbuf();
  std::ofstream(letters / "answers" / request.filename())
      << renaming(kernel_named_in(text.str()), "softmax_fast_1");
  BOOST_CHECK(left(one.tasks[0]) == SuiteStep::Kind::resume);
  const SuiteTaskEnd second = turn(one.tasks[0], 600.0);
  BOOST_TEST(second.waits_for_letters);
  const SuiteRow row = row_of(one.tasks[0], path() / "first", "", {});
  BOOST_TEST(row.evaluations == 2);
  BOOST_TEST_REQUIRE(row.best.has_value());
  BOOST_TEST(row.best->source_by == "mutate");
  BOOST_TEST(requests().size() == 1U);  // a new one
}

BOOST_AUTO_TEST_CASE(the_first_confirmation_of_a_seed_is_cut_off_while_letters_are_out) {
  const Suite one = load(
      "name: one\n"
      "common:\n"
      "  workloads: cpu_quick\n"
      "  budget: {wall: 10m}\n"
      "  operators: {mutate: 1}\n"
      "  asking: {in_flight: 1}\n"
      "  models: {m: {provider: mailbox, folder: \"{run}/letters\"}}\n"
      "tasks: [{name: first, task: softmax, seeds: [plain.cpp]}]\n");
  Simulation slow;
  slow.confirm_s = 10.0;
  const SuiteTaskEnd end = turn(one.tasks[0], 5.0, slow);
  BOOST_TEST(end.waits_for_letters);
  const SuiteRow row = row_of(one.tasks[0], path() / "first", "", {});
  BOOST_TEST(!row.best.has_value());
  BOOST_TEST(row.elapsed_s < 9.0);
  BOOST_CHECK(left(one.tasks[0]) == SuiteStep::Kind::resume);  // to confirm it, if no answer comes
}

BOOST_AUTO_TEST_CASE(problems_that_are_no_tasks_have_names_and_reasons) {
  const std::string refused = "refused: {l1_4: \"Output 0 is constant.\", l1_9: no seed}\n";
  const Suite pair = load(kCommon + kPair + refused);
  BOOST_TEST(pair.refused.size() == 2U);
  BOOST_TEST(pair.refused.at("l1_4") == "Output 0 is constant.");
  BOOST_TEST(contains(complaint(kCommon + kPair + "refused: [l1_4]\n"), "refused"));
}

BOOST_AUTO_TEST_CASE(fast_p_counts_by_the_ratio_and_by_its_lower_bound) {
  const auto solved = [](const std::string& name, double ratio, double lower, bool confirmed) {
    SuiteRow row;
    row.name = name;
    row.measured = 1;
    row.judged_again = "cultivar evaluate ../" + name;
    row.best.emplace();
    row.best->confirmed = confirmed;
    row.best->source_by = row.best->made_by = "seed";
    row.best->seed = "naive.cu";
    row.best->rivals = {{"torch_eager",
                         {.mean = ratio, .lowest = ratio, .highest = ratio, .lowest_on = ""},
                         lower,
                         2 * ratio,
                         {}}};
    return row;
  };
  SuiteRow unsolved;
  unsolved.name = "unsolved";
  unsolved.contenders = {"torch_eager"};
  unsolved.state = "not begun";
  const std::vector<SuiteRow> rows{solved("a", 2.5, 2.1, true), solved("b", 1.1, 0.9, true),
                                   solved("c", 1.6, 1.55, false), unsolved};
  const std::vector<FastP> all = fast_p(rows);
  BOOST_TEST_REQUIRE(all.size() == 1U);
  std::vector<int> by_ratio, by_bound;
  for (const FastP::Count& count : all[0].counts) {
    by_ratio.push_back(count.by_ratio);
    by_bound.push_back(count.by_bound);
  }
  BOOST_TEST(by_ratio == std::vector({3, 3, 3, 2, 1}), boost::test_tools::per_element());
  BOOST_TEST(by_bound == std::vector({2, 2, 1, 1, 1}), boost::test_tools::per_element());
  const std::string page = suite_page("s", rows, "", {{"l1_4", "Output 0 is constant."}});
  for (const std::string part :
       {"| 1 | 3 of 5 (0.60) | 1 of 5 (0.20) |", "| a | #0, seed naive.cu, as given | 2.5 (2.1 to 5) |",
        "    cultivar evaluate ../a\n", "- l1_4: Output 0 is constant."})
    BOOST_TEST(contains(page, part), part << "\n" << page);
  const auto facts = suite_facts("s", rows, "", {{"l1_4", "constant"}})["fast_p"];
  BOOST_TEST(facts["problems"] == 5);
  BOOST_TEST(facts["contenders"]["torch_eager"][2]["by_lower_bound"] == 1);
  BOOST_TEST(!contains(suite_page("s", {SuiteRow{}}, ""), "fast_p"));
}

BOOST_AUTO_TEST_CASE(a_row_says_with_which_command_it_is_judged_again) {
  const Suite pair =
      load(kCommon + "  - {name: first, task: softmax, seeds: [plain.cpp], contenders: [torch, fast.cpp]}\n");
  const std::string command = row_of(pair.tasks[0], path() / "runs/first", "", {}).judged_again;
  BOOST_TEST(contains(command,
                      "softmax ./first:best --target cpu --workloads cpu_quick --contender ../fast.cpp "
                      "--contender torch"),
             command);
}

BOOST_AUTO_TEST_CASE(a_ranking_names_every_task_and_its_budget_is_that_of_searches_without_one) {
  const std::string tasks =
      "name: camp\n"
      "common: {workloads: cpu_quick}\n"
      "tasks:\n"
      "  - {name: first, task: softmax, seeds: [plain.cpp]}\n"
      "  - {name: second, task: softmax, seeds: [plain.cpp], budget: {evaluations: 6}}\n";
  const std::string both =
      "ranking:\n  first: {ms: 10, alone_ms: 12, floor_ms: 1}\n  second: {ms: 5, floor_ms: 1}\n";
  const Suite suite = load(tasks + both + "budget: {wall: 3m, usd: 2}\n");
  BOOST_TEST(suite.ranking.at("first").alone_ms == 12.0);
  BOOST_TEST(suite.ranking.at("second").alone_ms == 5.0);
  BOOST_TEST(suite.tasks[0].config.budget.wall_s == 180.0);
  BOOST_TEST(suite.tasks[1].config.budget.wall_s == 0.0);
  BOOST_TEST(suite.limits.at("usd") == 2.0);
  BOOST_TEST(contains(complaint(tasks + both), "has no budget"));
  BOOST_TEST(contains(complaint(tasks + "budget: {wall: 3m}\n"), "only a suite with a ranking has a budget"));
  BOOST_TEST(contains(complaint(tasks + "ranking:\n  first: {ms: 1, floor_ms: 0}\nbudget: {wall: 3m}\n"),
                      "it lacks the task second"));
  BOOST_TEST(contains(complaint(tasks + both + "  third: {ms: 1, floor_ms: 0}\nbudget: {wall: 3m}\n"),
                      "there is no task third"));
}

BOOST_AUTO_TEST_CASE(a_turn_ends_before_its_time_when_another_search_shall_go_on) {
  const Suite suite = load(kCommon + kPair);
  const SuiteTask& task = suite.tasks[0];
  std::atomic<bool> ends = false;
  Runtime runtime = simulated_runtime({});
  runtime.turn_s = 3600.0;
  runtime.turn_ends = &ends;
  SearchCallbacks callbacks;
  callbacks.event = [&](const Event& event) { ends = ends || event.kind == "promoted"; };
  const auto end =
      take_step(task, *next_step(task, path() / task.name), path() / task.name, runtime, callbacks, kNever);
  BOOST_TEST(end.trouble == "");
  BOOST_TEST(end.turn_over);
  BOOST_TEST((left(task) == SuiteStep::Kind::resume));
}

BOOST_AUTO_TEST_CASE(a_search_that_has_begun_takes_settings_of_its_evaluation_once) {
  const std::string one =
      "name: one\ncommon: {workloads: cpu_quick, budget: {wall: 10m}, seed: 7}\n"
      "tasks: [{name: first, task: softmax, seeds: [plain.cpp]}]\n";
  Simulation slow;
  slow.evaluate_s = 0.05;
  const auto record = [&] { return Record::open(path() / "first").value(); };
  const auto changes = [&] {
    const auto events = record().events(1000);
    return std::ranges::count_if(events,
                                 [](const EventRow& e) { return contains(e.text, "other settings"); });
  };
  BOOST_TEST(turn(load(one).tasks[0], 0.5, slow).turn_over);
  BOOST_TEST(!contains(record().facts().config_yaml, "patience: 420s"));
  // The seed decides what is searched, so it is no setting that changes on the way.
  const SuiteTask other = load(one, {"evaluation.patience=7m", "seed=8"}).tasks[0];
  BOOST_TEST(turn(other, 0.5, slow).trouble == "");
  const std::string then = record().facts().config_yaml;
  BOOST_TEST(contains(then, "patience: 420s"), then);
  BOOST_TEST(contains(then, "seed: 7"), then);
  BOOST_TEST(changes() == 1);
  BOOST_TEST(turn(other, 0.5, slow).trouble == "");
  BOOST_TEST(changes() == 1);
}

BOOST_AUTO_TEST_SUITE_END()
