// SPDX-License-Identifier: Apache-2.0
#include "engine/config/config.hpp"

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <limits>

#include "engine/config/duration.hpp"
#include "support/contains.hpp"
#include "support/simulated_evaluator.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace {

const Installation kInstallation{std::string(CULTIVAR_SOURCE_DIR) + "/configs/tasks"};

std::string complaint(const ScratchFolder& scratch, const std::string& text) {
  try {
    parse_config(text, "my.yaml", scratch.path(), {}, kInstallation);
  } catch (const InputError& e) {
    return e.what();
  }
  return "no complaint";
}

const std::string kLeast = "name: x\ntask: softmax\nworkloads: cpu_quick\nseeds: [plain.cpp]\n";

struct Folder : ScratchFolder {
  Folder() { softmax_config(path()); }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(config, Folder)

BOOST_AUTO_TEST_CASE(the_least_configuration_gets_defaults) {
  const Config c = parse_config(kLeast, "my.yaml", path(), {}, kInstallation);
  BOOST_TEST(c.task_folder.filename() == "softmax");
  BOOST_TEST(c.operators.size() == 2);
  BOOST_TEST(c.seeds.front() == path() / "plain.cpp");
  BOOST_TEST(c.holdout.empty());
}

BOOST_AUTO_TEST_CASE(letters_that_have_no_folder_lie_where_the_user_is_and_not_beside_the_configuration) {
  const Config c =
      parse_config(kLeast + "models: {me: {provider: mailbox}}\n", "my.yaml", path(), {}, kInstallation);
  BOOST_TEST(c.models.at(0).folder == std::filesystem::current_path() / "runs/me-letters");
}

BOOST_AUTO_TEST_CASE(what_is_written_out_reads_back_the_same) {
  const std::string all =
      kLeast +
      "holdout: cpu_holdout\nbudget: {wall: 90m, evaluations: 7, usd: 2.5, tokens: 1000, device_hours: 2.5, "
      "plateau: 6h}\nmetrics: m/x.prom\nnotify: [{webhook: \"https://e.org/h\", on: [best, end]}, "
      "{webhook_env: HOOK}, {command: [tell, it]}]\n"
      "models: {me: {provider: mailbox, folder: mail}, a: {provider: openai, model: m, prices: {input: 1, "
      "output: 2}}}\n"
      "population: {islands: 2, elites: 5, migrate_every: 9, immigrants: 1, tournament: 3, explore: 0.5}\n"
      "operators: {tune: 1.5, mutate: {weight: 2, models: [a], budget: {usd: 1.5, tokens: 900}}, crossover: "
      "1}\n"
      "portfolio: {floor: 0.3}\nasking: {in_flight: 3, resamples: 1, ideas: false, prompt_tokens: 9000, "
      "output_tokens: "
      "500}\n"
      "evaluation: {depth: 2, compile_workers: 3, devices: [0], launcher: {measure: [ssh, \"a \\\"b\\\"\"], "
      "compile: [nice]}, workers_per_device: 4, patience: 2h, "
      "max_samples: 99, pace_every: 5m, profile: elites}\n"
      "gate: {min_gain: 0.01, alpha: 0.05}\ncheckpoint: {every: 1h, keep: 9}\nseed: 5\n";
  const Config c = parse_config(all, "my.yaml", path(), {}, kInstallation);
  BOOST_TEST(c.budget.wall_s == 5400.0);
  BOOST_TEST((c.evaluation.profile == EvaluationConfig::Profiles::elites));
  BOOST_TEST(c.evaluation.launcher.back() == "a \"b\"");
  BOOST_TEST(c.evaluation.compile_launcher.front() == "nice");
  BOOST_TEST(c.evaluation.patience_s == 7200.0);
  BOOST_TEST(c.budget.models.usd.value() == 2.5);
  BOOST_TEST(c.operators.at(1).models == std::vector<std::string>{"a"}, boost::test_tools::per_element());
  BOOST_TEST(c.operators.at(1).budget.usd.value() == 1.5);
  BOOST_TEST(c.operators.at(1).budget.tokens.value() == 900);
  BOOST_TEST(!c.operators.at(2).budget.usd.has_value());
  BOOST_TEST(c.operators.at(2).models == (std::vector<std::string>{"me", "a"}),
             boost::test_tools::per_element());
  BOOST_TEST(c.portfolio.learn);
  BOOST_TEST(c.asking.prompts.prompt_tokens == 9000);
  BOOST_TEST(!c.asking.prompts.ideas);
  BOOST_TEST(c.asking.prompts.families);
  BOOST_TEST(c.models.at(0).folder == (path() / "mail").string());
  const std::string written = to_yaml(c);
  const Config again = parse_config(written, "record", "/nowhere", {}, kInstallation);
  BOOST_TEST(to_yaml(again) == written);
  BOOST_TEST((again.population == c.population));
  BOOST_TEST(again.gate_alpha == 0.05);
}

BOOST_AUTO_TEST_CASE(as_many_proposals_are_in_flight_as_keep_the_workers_busy) {
  const auto depth = [&](const std::string& evaluation) {
    return parse_config(kLeast + evaluation, "my.yaml", path(), {}, kInstallation).evaluation.depth;
  };
  BOOST_TEST(depth("") == 4);
  BOOST_TEST(depth("evaluation: {launcher: [srun], workers_per_device: 8}\n") == 24);
  BOOST_TEST(depth("evaluation: {launcher: [srun], workers_per_device: 8, depth: 5}\n") == 5);
}

BOOST_AUTO_TEST_CASE(a_launcher_that_is_a_list_starts_measuring_workers_only) {
  const Config c =
      parse_config(kLeast + "evaluation: {launcher: [srun, -n1]}\n", "my.yaml", path(), {}, kInstallation);
  BOOST_TEST(c.evaluation.launcher.front() == "srun");
  BOOST_TEST(c.evaluation.compile_launcher.empty());
  BOOST_TEST(c.evaluation.workers_per_device == 1);
  BOOST_TEST(contains(complaint(*this, kLeast + "evaluation: {launcher: {mesure: [srun]}}\n"), "measure"));
  BOOST_TEST(contains(complaint(*this, kLeast + "evaluation: {workers_per_device: 2}\n"), "launcher"));
}

BOOST_AUTO_TEST_CASE(a_record_without_rules_keeps_the_first_ones_and_a_new_search_gets_the_newest) {
  BOOST_TEST(parse_config(kLeast, "record", path(), {}, kInstallation).rules == 1);
  std::ofstream(path() / "new.yaml") << kLeast;
  const Config fresh = load_config(path() / "new.yaml", {}, kInstallation);
  BOOST_TEST(fresh.rules == kNewestRules);
  BOOST_TEST(fresh.population.rules == kNewestRules);
  const Config again = parse_config(to_yaml(fresh), "record", "/nowhere", {}, kInstallation);
  BOOST_TEST(again.rules == kNewestRules);
  BOOST_TEST((again.population == fresh.population));
}

BOOST_AUTO_TEST_CASE(a_supervisor_is_part_of_rules_2_and_its_settings_read_back_the_same) {
  BOOST_TEST(!parse_config(kLeast, "record", path(), {}, kInstallation).supervisor.active);
  const Config c =
      parse_config(kLeast + "rules: 2\nsupervisor: {evaluations: 9, device_time: 3h, usd: 2.5, term: 5}\n",
                   "my.yaml", path(), {}, kInstallation);
  BOOST_TEST(c.supervisor.active);
  BOOST_TEST(c.supervisor.device_s == 10800.0);
  BOOST_TEST((parse_config(to_yaml(c), "record", "/nowhere", {}, kInstallation).supervisor == c.supervisor));
  BOOST_TEST(
      contains(complaint(*this, kLeast + "supervisor: {active: true}\n"), "rules 1 have no supervisor"));
}

BOOST_AUTO_TEST_CASE(a_strategy_has_its_own_keys) {
  const auto read = [&](const std::string& population) {
    return parse_config(kLeast + "rules: 2\npopulation: " + population + "\n", "my.yaml", path(), {},
                        kInstallation);
  };
  const Config grid = read("{strategy: map_elites, axes: [family, UNROLL], cells: 9}");
  BOOST_TEST(grid.population.axes == (std::vector<std::string>{"family", "UNROLL"}),
             boost::test_tools::per_element());
  BOOST_TEST(
      (parse_config(to_yaml(grid), "record", "/nowhere", {}, kInstallation).population == grid.population));
  BOOST_TEST(read("{elites: 32, islands: 1}").population.family_elites == 16);
  BOOST_TEST((read("{strategy: lineage}").population.strategy == StrategyKind::lineage));
  BOOST_CHECK_THROW(read("{strategy: lineage, islands: 3}"), InputError);
  BOOST_CHECK_THROW(read("{strategy: island}"), InputError);
  BOOST_TEST(contains(complaint(*this, kLeast + "population: {strategy: lineage}\n"), "rules 1 have only"));
}

BOOST_AUTO_TEST_CASE(contenders_are_sources_or_libraries_by_name_or_path) {
  const Config c = parse_config(kLeast + "contenders: [./plain.cpp, cudnn, lib/libmine.so]\n", "my.yaml",
                                path(), {}, kInstallation);
  BOOST_TEST(c.contenders.size() == 1U);
  BOOST_TEST(c.contenders.front() == path() / "plain.cpp");
  BOOST_TEST(c.libraries == (std::vector<std::string>{"cudnn", (path() / "lib/libmine.so").string()}),
             boost::test_tools::per_element());
  // A record is read even where the library is gone.
  const Config again = parse_config(to_yaml(c), "record", "/nowhere", {}, kInstallation);
  BOOST_TEST(to_yaml(again) == to_yaml(c));
  BOOST_TEST(contains(complaint(*this, kLeast + "contenders: [cudnn, cudnn]\n"), "'cudnn' is named twice"));
  const std::string unknown = complaint(*this, kLeast + "contenders: [cudn]\n");
  BOOST_TEST(contains(unknown, "my.yaml:5: contenders[0]: unknown contender 'cudn' (did you mean 'cudnn'?)"),
             unknown);
  BOOST_TEST(contains(complaint(*this, kLeast + "contenders: [./none.cpp]\n"), "no such file: "));
}

BOOST_AUTO_TEST_CASE(contenders_may_be_pytorch_or_python_programs) {
  const Config c = parse_config(
      kLeast +
          "contenders: [torch, lib/mine.py]\nevaluation: {python: /opt/bin/python3, prepare_deadline: 20m}\n",
      "my.yaml", path(), {}, kInstallation);
  BOOST_TEST(c.libraries == (std::vector<std::string>{"torch", (path() / "lib/mine.py").string()}),
             boost::test_tools::per_element());
  BOOST_TEST(c.evaluation.python == "/opt/bin/python3");
  BOOST_TEST(c.evaluation.prepare_deadline_s == 1200.0);
  const Config again = parse_config(to_yaml(c), "record", "/nowhere", {}, kInstallation);
  BOOST_TEST(to_yaml(again) == to_yaml(c));
  BOOST_TEST(again.evaluation.python == "/opt/bin/python3");
}

BOOST_AUTO_TEST_CASE(an_empty_list_of_seeds_is_distinguished_from_a_folder_without_any) {
  const std::string least = "name: x\ntask: softmax\nworkloads: cpu_quick\nseeds: []\n";
  const std::string empty = complaint(*this, least);
  BOOST_TEST(contains(empty, "my.yaml:4: seeds: the list is empty"), empty);
  BOOST_TEST(contains(empty, "name some of naive, vectorised, or omit the key"), empty);
}

// Those in Triton need a compiler that many machines lack.
BOOST_AUTO_TEST_CASE(a_configuration_without_seeds_takes_those_in_the_first_language_of_its_target) {
  const std::string least = "name: x\ntask: softmax\ntarget: cuda\nworkloads: quick\n";
  for (const std::filesystem::path& seed : parse_config(least, "my.yaml", path(), {}, kInstallation).seeds)
    BOOST_TEST(seed.extension() == ".cu", seed);
  const Config named = parse_config(least + "seeds: [triton_rows]\n", "my.yaml", path(), {}, kInstallation);
  BOOST_REQUIRE(named.seeds.size() == 1U);
  BOOST_TEST(named.seeds.front().filename() == "triton_rows.py");
}

BOOST_AUTO_TEST_CASE(a_target_says_which_kind_and_other_keys_how_many) {
  BOOST_TEST(contains(complaint(*this, kLeast + "target: gpu\n"), "did you mean 'cuda'?"));
  const std::string device = complaint(*this, kLeast + "target: cuda:1\n");
  BOOST_TEST(contains(device, "write `target: cuda` and `evaluation.devices: [1]`"), device);
  const std::string cores = complaint(*this, kLeast + "target: cpu:8\n");
  BOOST_TEST(contains(cores, "write `target: cpu` and `evaluation.cores: 8`"), cores);
  const std::string third = complaint(*this, kLeast + "evaluation: {devices: [3]}\n");
  BOOST_TEST(contains(third, "my.yaml:5: evaluation.devices: the cpu target has only device 0"), third);
  const Config c =
      parse_config("name: x\ntask: matmul\ntarget: cuda\nworkloads: quick\nevaluation: {devices: [0, 2]}\n",
                   "my.yaml", path(), {}, kInstallation);
  BOOST_TEST(parse_config(to_yaml(c), "record", "/nowhere", {}, kInstallation).evaluation.devices ==
                 (std::vector<int>{0, 2}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(unknown_keys_are_errors_with_line_and_nearest_name) {
  const std::string e = complaint(*this, kLeast + "budgit: {wall: 3m}\n");
  BOOST_TEST(contains(e, "my.yaml:5"), e);
  BOOST_TEST(contains(e, "budget"), e);
  const std::string nested = complaint(*this, kLeast + "gate:\n  min_gian: 0.1\n");
  BOOST_TEST(contains(nested, "my.yaml:6"), nested);
  BOOST_TEST(contains(nested, "min_gain"), nested);
}

BOOST_AUTO_TEST_CASE(an_unknown_key_of_an_override_is_its_own_fault_and_not_the_files) {
  try {
    parse_config(kLeast, "my.yaml", path(), {"budgit.wall=3m"}, kInstallation);
    BOOST_ERROR("accepted");
  } catch (const InputError& e) {
    const std::string message = e.what();
    BOOST_TEST(contains(message, "--set budgit.wall"), message);
    BOOST_TEST(!contains(message, "my.yaml"), message);
    BOOST_TEST(contains(message, "budget"), message);
  }
}

BOOST_AUTO_TEST_CASE(a_budget_of_no_time_or_of_ages_and_a_name_no_folder_can_have_are_refused) {
  BOOST_TEST(contains(complaint(*this, kLeast + "budget: {wall: 00m}\n"), "the limit is zero"));
  const Config off = parse_config(
      kLeast + "budget: {wall: 3m, plateau: 6h, evaluations: 7, device_hours: off}\n", "my.yaml", path(),
      {"budget.wall=off", "budget.plateau=off", "budget.evaluations=off"}, kInstallation);
  BOOST_TEST((off.budget.wall_s == 0.0 && off.budget.plateau_s == 0.0 && off.budget.device_s == 0.0));
  BOOST_TEST(off.budget.evaluations == 0);
  BOOST_TEST(contains(complaint(*this, kLeast + "budget: {wall: 1h30}\n"), "is not a duration"));
  BOOST_TEST(
      contains(complaint(*this, kLeast + "budget: {wall: [5s]}\n"), "budget.wall: must be one duration"));
  BOOST_TEST(contains(complaint(*this, kLeast + "budget: {wall: 999999999999999d}\n"), "ten years"));
  const std::string after = kLeast.substr(kLeast.find('\n'));
  BOOST_TEST(contains(complaint(*this, "name: " + std::string(300, 'n') + after), "100 characters at most"));
  BOOST_TEST(contains(complaint(*this, "name: \"a\\nb\"" + after), "control characters"));
}

BOOST_AUTO_TEST_CASE(duplicate_keys_are_errors) {
  BOOST_TEST(contains(complaint(*this, kLeast + "seed: 1\nseed: 2\n"), "my.yaml:6"));
}

BOOST_AUTO_TEST_CASE(names_that_do_not_exist_are_errors_that_name_the_nearest) {
  BOOST_TEST(contains(complaint(*this, "name: x\ntask: softmaks\nworkloads: cpu_quick\n"), "softmax"));
  BOOST_TEST(contains(complaint(*this, "name: x\ntask: softmax\nworkloads: cpu_quik\nseeds: [plain.cpp]\n"),
                      "cpu_quick"));
  BOOST_TEST(contains(complaint(*this, kLeast + "operators: {tuna: 1}\n"), "tune"));
  BOOST_TEST(contains(complaint(*this, "name: x\ntask: softmax\nworkloads: cpu_quick\nseeds: [gone.cpp]\n"),
                      "gone.cpp"));
}

BOOST_AUTO_TEST_CASE(what_this_version_cannot_do_is_said_and_not_ignored) {
  BOOST_TEST(contains(complaint(*this, kLeast + "budget: {usd: 5}\n"), "no `models` section"));
  BOOST_TEST(contains(complaint(*this, kLeast + "operators: {mutate: 1}\n"), "has no `models` section"));
  BOOST_TEST(contains(complaint(*this, kLeast + "asking: {in_flight: 2}\n"), "no model is asked"));
  const std::string models = "models: {me: {provider: mailbox, folder: mail}}\n";
  BOOST_TEST(
      contains(complaint(*this, kLeast + models + "operators: {agent: 1}\nasking: {agent: {steps: 1}}\n"),
               "must be between 2 and"));
  BOOST_TEST(contains(complaint(*this, kLeast + models + "operators: {mutate: {models: [mee]}}\n"),
                      "did you mean 'me'"));
  BOOST_TEST(contains(complaint(*this, kLeast + models + "operators: {tune: {models: [me]}}\n"),
                      "asks no language model"));
  BOOST_TEST(contains(complaint(*this, kLeast + models + "operators: {tune: {budget: {usd: 1}}}\n"),
                      "has no budget"));
  BOOST_TEST(
      contains(complaint(*this, kLeast + "models: {a: {provider: openai, model: m}}\noperators: {mutate: "
                                         "{budget: {usd: 1}}}\n"),
               "add prices"));
  BOOST_TEST(
      contains(complaint(*this, kLeast + "models: {a: {provider: opena}}\n"), "did you mean 'openai'"));
  BOOST_TEST(contains(complaint(*this, kLeast + "holdout: cpu_quick\n"), "holdout"));
}

BOOST_AUTO_TEST_CASE(overrides_replace_values_and_are_checked_alike) {
  const Config c = parse_config(kLeast, "my.yaml", path(),
                                {"budget.wall=2h", "seed=9", "budget.evaluations=3"}, kInstallation);
  BOOST_TEST(c.budget.wall_s == 7200.0);
  BOOST_TEST(c.budget.evaluations == 3);
  BOOST_TEST(c.seed == 9);
  BOOST_CHECK_THROW(parse_config(kLeast, "my.yaml", path(), {"budget.wal=2h"}, kInstallation), InputError);
  BOOST_CHECK_THROW(parse_config(kLeast, "my.yaml", path(), {"budget.wall"}, kInstallation), InputError);
}

BOOST_AUTO_TEST_CASE(durations_are_read_in_every_unit_and_nonsense_is_refused) {
  BOOST_TEST(duration_seconds("90s").value() == 90.0);
  BOOST_TEST(duration_seconds("3m").value() == 180.0);
  BOOST_TEST(duration_seconds("1h30m").value() == 5400.0);
  BOOST_TEST(duration_seconds("7d").value() == 604800.0);
  BOOST_TEST(duration_seconds("0.5s").value() == 0.5);
  BOOST_TEST(duration_seconds("90").value() == 90.0);
  BOOST_TEST(duration_seconds("0").value() == 0.0);
  for (const char* bad : {"", "m", "3x", "1h30", "-5s", "-5", "1..5s", "5 m", "9 0", "."})
    BOOST_TEST(!duration_seconds(bad), bad);
  BOOST_TEST(duration_text(3720) == "1h02m");
}

BOOST_AUTO_TEST_CASE(people_read_durations_in_two_units_and_times_with_their_zone) {
  BOOST_TEST(duration(0) == "0 s");
  BOOST_TEST(duration(9.54) == "9.5 s");
  BOOST_TEST(duration(9.96) == "10 s");
  BOOST_TEST(duration(42.4) == "42 s");
  BOOST_TEST(duration(59.7) == "1 min");
  BOOST_TEST(duration(7200) == "2 h");
  BOOST_TEST(duration(3725) == "1 h 2 min");
  BOOST_TEST(duration(100'000) == "1 d 3 h");
  BOOST_TEST(duration(std::numeric_limits<double>::infinity()) == "unknown");
  const char* const zone = std::getenv("TZ");
  const std::string before = zone ? zone : "";
  for (const auto& [place, words] :
       {std::pair{"CET-1", "2026-11-30 13:31:58 UTC+1"}, std::pair{"NST3:30", "2026-11-30 09:01:58 UTC-3:30"},
        std::pair{"GMT0", "2026-11-30 12:31:58 UTC"}}) {  // as on the page of a run
    ::setenv("TZ", place, 1);
    ::tzset();
    BOOST_TEST(local_time(1796041918.3) == words);
  }
  zone ? ::setenv("TZ", before.c_str(), 1) : ::unsetenv("TZ");
  ::tzset();
}

BOOST_AUTO_TEST_CASE(what_is_wrong_with_a_notification_is_told_with_the_remedy) {
  const auto told = [&](const std::string& channel) {
    return complaint(*this, kLeast + "notify: [" + channel + "]\n");
  };
  BOOST_TEST(contains(told("{on: [end]}"), "my.yaml:5"));
  BOOST_TEST(contains(told("{on: [end]}"), "one of command, webhook and webhook_env"));
  BOOST_TEST(contains(told("{webhook: ftp://x}"), "https://"));
  BOOST_TEST(contains(told("{webhook: \"https://hooks.example/services/Xa8f7Qp2Lm9Zr4Tk6Wv1Bn3Cd5\"}"),
                      "webhook_env"));
  BOOST_TEST(contains(told("{command: [tell], on: [bets]}"), "best"));
  BOOST_TEST(contains(complaint(*this, kLeast + "budget: {gpu_hours: 3}\n"), "device_hours"));
}

BOOST_AUTO_TEST_SUITE_END()
