// SPDX-License-Identifier: Apache-2.0
// What `run --check` finds in a configuration before a search begins, and the unit that `--print-systemd`
// prints.
#include <boost/test/unit_test.hpp>
#include <filesystem>

#include "support/contains.hpp"
#include "support/own_task.hpp"

using namespace cultivar::testing;

namespace {

struct Desk : TemporaryFolder {
  Desk() { write_own_task(path(), "{evaluations: 1}"); }

  // Of the configuration with these lines after its own.
  CommandResult run(const std::string& more, std::vector<std::string> options = {"--check"},
                    std::map<std::string, std::string> environment = {}) const {
    write_text(path() / "mine.yaml", read_text(path() / "search.yaml") + more);
    options.insert(options.begin(), {"run", "mine.yaml"});
    return run_command(cultivar_command(std::move(options)),
                       {.folder = path(), .environment = std::move(environment), .deadline_s = 60.0});
  }
  void refuse(const std::string& more, const std::string& place, const std::string& words) const {
    const auto result = run(more);
    BOOST_TEST(result.exit == 2, more << result.out);
    BOOST_TEST(contains(result.err, "mine.yaml:" + place), result.err);
    BOOST_TEST(contains(result.err, words), result.err);
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(config_checks, Desk)

BOOST_AUTO_TEST_CASE(axes_that_no_kernel_has_are_refused_with_the_nearest_name) {
  const auto axes = [](const std::string& list) {
    return "population: {strategy: map_elites, axes: [" + list + "]}\n";
  };
  refuse(axes("family, text_byte"), "10: population.axes.1", "(did you mean 'text_bytes'?");
  refuse(axes("registers"), "10: population.axes.0", "no kernel has 'registers'");  // on this target
  for (const char* known : {"family, text_bytes, passes", "LANES, TEAM"})
    BOOST_TEST(run(axes(known)).exit == 0, known);
}

BOOST_AUTO_TEST_CASE(a_planner_needs_an_operator_that_follows_its_strategies) {
  const std::string models = "models: {m: {provider: mailbox, folder: mail}}\n";
  refuse(models + "operators:\n  tune: 1\n  crossover: 1\n  plan: 1\n", "14: operators.plan",
         "only mutate and agent follow its strategies");
  BOOST_TEST(run(models + "operators: {plan: 1, mutate: 1}\n").exit == 0);
  BOOST_TEST(run(models + "operators: {plan: 1, agent: 1}\n").exit == 0);
  BOOST_TEST(run(models + "operators: {plan: 0, crossover: 1}\n").exit == 0);
}

BOOST_AUTO_TEST_CASE(who_is_notified_must_exist) {
  refuse("notify:\n  - {command: [sh]}\n  - {command: [no-such-program, x]}\n", "12: notify.1.command",
         "there is no program 'no-such-program'");
  const std::string hook = "notify: [{webhook_env: CULTIVAR_TEST_HOOK}]\n";
  const auto unset = run(hook);
  BOOST_TEST(unset.exit == 0, unset.err);
  BOOST_TEST(contains(unset.out, "CULTIVAR_TEST_HOOK is not set in this environment"), unset.out);
  const auto set = run(hook, {"--check"}, {{"CULTIVAR_TEST_HOOK", "https://e.org/hook"}});
  BOOST_TEST(!contains(set.out, "CULTIVAR_TEST_HOOK"), set.out);
}

BOOST_AUTO_TEST_CASE(a_search_without_a_budget_is_said_to_be_endless) {
  const auto limited = run("");
  BOOST_TEST(limited.exit == 0, limited.err);
  BOOST_TEST(!contains(limited.out, "no budget"), limited.out);
  const auto endless = run("", {"--check", "--set", "budget.evaluations=off"});
  BOOST_TEST(endless.exit == 0, endless.err);
  BOOST_TEST(contains(endless.out, "no budget: it goes on until it is stopped"), endless.out);
}

BOOST_AUTO_TEST_CASE(a_workload_that_no_memory_holds_is_refused_before_anything_is_allocated) {
  set_own_workloads(path(), "      - {R: 1000000, C: 1000000}\n");
  const auto checked = run("");
  BOOST_TEST(checked.exit == 2, checked.out);
  BOOST_TEST(contains(checked.err, "workload R1000000_C1000000_f32 needs at least "), checked.err);
  BOOST_TEST(contains(checked.err, " GiB of memory ("), checked.err);
  const auto evaluated =
      cultivar_in(path(), {"evaluate", "rms_norm", "rms_norm/seeds/plain.cpp", "--workloads", "small"});
  BOOST_TEST(evaluated.exit == 2, evaluated.out);
  BOOST_TEST(contains(evaluated.err, "workload R1000000_C1000000_f32 needs at least "), evaluated.err);
}

BOOST_AUTO_TEST_CASE(limits_of_the_shell_are_told_and_respected) {
  const auto under = [&](const std::string& limit, const std::string& words) {
    std::string command = "ulimit " + limit + "; exec";
    for (const std::string& word : cultivar_command({})) command += " " + word;
    return run_command({"sh", "-c", command + " " + words},
                       {.folder = path(),
                        .environment = {{"CULTIVAR_CACHE", path() / ("cache" + limit.substr(1, 1))}},
                        .deadline_s = 120.0});
  };
  const auto few = under("-n 100", "run search.yaml --check");
  BOOST_TEST(few.exit == 2, few.out);
  BOOST_TEST(contains(few.err, "this shell allows 100 open files; Cultivar needs 128 (ulimit -n)"), few.err);
  const auto brief = under("-t 40", "run search.yaml --check");
  BOOST_TEST(brief.exit == 0, brief.err);
  BOOST_TEST(contains(brief.err, "Warning: this shell allows each process 40 s of processor time"),
             brief.err);
  // Lower than what compilers would get otherwise, and enough.
  for (const char* limit : {"-v 4000000", "-t 40", "-f 1000000"}) {
    const auto smoke =
        under(limit, "evaluate rms_norm rms_norm/seeds/plain.cpp --workloads small --stop-after smoke");
    BOOST_TEST(smoke.exit == 0, limit << smoke.err);
  }
}

BOOST_AUTO_TEST_CASE(a_launcher_is_shown_as_a_shell_takes_it_with_the_time_that_it_took) {
  const auto result =
      run("", {"--check", "--set", "evaluation.launcher=[sh, -c, \"echo no room >&2; exit 1\"]"});
  BOOST_TEST(result.exit == 2, result.out);
  BOOST_TEST(contains(result.err, "`sh -c 'echo no room >&2; exit 1' true` by hand"), result.err);
  BOOST_TEST(contains(result.err, "no room\n"), result.err);
  BOOST_TEST(contains(result.err, "started as `sh -c 'echo no room >&2; exit 1' /"), result.err);
  BOOST_TEST(contains(result.err, "the attempt ended after "), result.err);
  BOOST_TEST(!contains(result.err, "60 s"), result.err);
}

BOOST_AUTO_TEST_CASE(a_unit_has_the_cache_and_names_what_is_secret_without_its_value) {
  const auto result = run(
      "notify: [{webhook_env: MY_HOOK}]\noperators: {mutate: 1}\nmodels: {m: {provider: openai, model: x, "
      "api_key_env: MY_KEY}}\n",
      {"--print-systemd"},
      {{"CULTIVAR_CACHE", (path() / "my cache").string()}, {"MY_HOOK", "https://h/1"}, {"MY_KEY", "sk-1"}});
  BOOST_TEST(result.exit == 0, result.err);
  BOOST_TEST(contains(result.out, "Environment=\"CULTIVAR_CACHE=" + (path() / "my cache").string() + "\"\n"),
             result.out);
  BOOST_TEST(contains(result.out, "Write MY_KEY, MY_HOOK into this file"), result.out);
  BOOST_TEST(contains(result.out, "\nEnvironmentFile=%h/.config/cultivar/keys\n"), result.out);
  BOOST_TEST((!contains(result.out, "https://h/1") && !contains(result.out, "sk-1")), result.out);
}

BOOST_AUTO_TEST_SUITE_END()
