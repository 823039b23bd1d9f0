// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/cli/commands.hpp"
#include "engine/cli/config_checks.hpp"
#include "engine/cli/interrupt.hpp"
#include "engine/cli/machine_limits.hpp"
#include "engine/cli/options.hpp"
#include "engine/cli/output.hpp"
#include "engine/cli/progress_line.hpp"
#include "engine/cli/search_session.hpp"
#include "engine/cli/trouble.hpp"
#include "engine/config/duration.hpp"
#include "engine/store/run_lock.hpp"
#include "engine/suite/suite_page.hpp"
#include "engine/suite/suite_remaining.hpp"
#include "engine/suite/suite_run.hpp"
#include "evaluators/system/files.hpp"
#include "evaluators/system/foreign_json.hpp"
#include "evaluators/system/json_text.hpp"
#include "evaluators/system/plain_text.hpp"
#include "evaluators/yaml/nearest_name.hpp"

namespace cultivar {
namespace fs = std::filesystem;
namespace {

constexpr const char* page_name = "table.md";
constexpr const char* facts_name = "table.json";
constexpr std::size_t most_table_bytes = 64 << 20;

std::string today() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm local{};
  ::localtime_r(&now, &local);
  return fmt::format("{:04}-{:02}-{:02}", local.tm_year + 1900, local.tm_mon + 1, local.tm_mday);
}

using Troubles = std::map<std::string, std::string>;  // by task; of its last step

// Those of earlier calls, for tasks that this call does not reach.
Troubles earlier_troubles(const fs::path& folder) {
  Troubles troubles;
  const auto facts = foreign_json(read_file(folder / facts_name, most_table_bytes).value_or(""));
  if (!facts.is_object() || !facts.contains("tasks") || !facts["tasks"].is_array()) return troubles;
  for (const auto& task : facts["tasks"])
    if (task.is_object() && task.contains("name") && task["name"].is_string() && task.contains("trouble") &&
        task["trouble"].is_string())
      troubles[task["name"].get<std::string>()] = task["trouble"].get<std::string>();
  return troubles;
}

// Reads the records and writes the table; both files are replaced as a whole.
std::vector<SuiteRow> write_table(const Suite& suite, const fs::path& folder, const Troubles& troubles,
                                  const fs::path& installed_tasks) {
  std::vector<SuiteRow> rows;
  for (const SuiteTask& task : suite.tasks) {
    const auto trouble = troubles.find(task.name);
    rows.push_back(
        row_of(task, folder / task.name, trouble == troubles.end() ? "" : trouble->second, installed_tasks));
  }
  must(write_atomically(folder / page_name, suite_page(suite.name, rows, today(), suite.refused)));
  must(write_atomically(folder / facts_name,
                        json_text(suite_facts(suite.name, rows, today(), suite.refused), 2) + "\n"));
  return rows;
}

void check(const Suite& suite, const std::vector<const SuiteTask*>& chosen, const Output& output) {
  nlohmann::json tasks = nlohmann::json::array();
  double seconds = 0.0;
  for (const SuiteTask* task : chosen) {
    const Config& config = task->config;
    output.line(fmt::format("{}: {} on {}, workloads {}{}", task->name, config.task->name,
                            name_of(config.target), config.workloads,
                            config.budget.wall_s > 0 ? ", " + duration(config.budget.wall_s) : ""));
    tasks.push_back(check_sources(config, output));
    tasks.back()["budget_s"] = config.budget.wall_s;
    seconds += config.budget.wall_s;
  }
  output.facts({{"suite", suite.name}, {"tasks", tasks}, {"seconds", seconds}});
  output.line(fmt::format("The suite is valid: {}{} task{}, {} of search.", chosen.size(),
                          chosen.size() < suite.tasks.size() ? fmt::format(" of {}", suite.tasks.size()) : "",
                          suite.tasks.size() == 1 ? "" : "s", duration(seconds)));
}

// The tasks that --only names; all if it is not given.
std::vector<const SuiteTask*> chosen(const Suite& suite, const std::vector<std::string>& only) {
  std::vector<std::string> names;
  for (const SuiteTask& task : suite.tasks) names.push_back(task.name);
  for (const std::string& name : only)
    if (std::ranges::find(names, name) == names.end())
      throw InputError(
          fmt::format("--only {}: the suite has no such task{}", name, did_you_mean(name, names)));
  std::vector<const SuiteTask*> tasks;
  for (const SuiteTask& task : suite.tasks)
    if (only.empty() || std::ranges::find(only, task.name) != only.end()) tasks.push_back(&task);
  return tasks;
}

struct Ended {
  bool interrupted = false;
  Troubles troubles;
  std::set<std::string> waiting = {};  // tasks that go on once answers lie in their mailboxes
};

// One pass over the tasks after another, until none has anything to do. Without turns that is one pass.
class SuiteSession {
 public:
  SuiteSession(const Runtime& runtime, fs::path folder, bool verbose, Troubles troubles,
               std::function<void(const Troubles&)> after_each)
      : runtime_(runtime),
        folder_(std::move(folder)),
        verbose_(verbose),
        after_each_(std::move(after_each)),
        ended_{.troubles = std::move(troubles)} {}

  Ended run(std::vector<const SuiteTask*> tasks) {
    for (bool first = true; !tasks.empty() && !ended_.interrupted; first = false) {
      if (!first)
        notify("\n{} task{} left for another turn\n", tasks.size(), tasks.size() == 1 ? " is" : "s are");
      tasks = pass(tasks);
    }
    return std::move(ended_);
  }

 private:
  // Those whose turn was over before they had to wait.
  std::vector<const SuiteTask*> pass(const std::vector<const SuiteTask*>& tasks) {
    std::vector<std::pair<SuiteStep, std::string>> steps;
    double left = 0.0;
    int searches = 0;
    for (const SuiteTask* task : tasks) {
      const auto step = next_step(*task, folder_ / task->name);
      steps.emplace_back(step.value_or(SuiteStep{.kind = SuiteStep::Kind::done}),
                         step ? "" : step.error().text());
      double& seconds = steps.back().first.seconds_left;
      if (runtime_.turn_s > 0.0) seconds = std::min(seconds, runtime_.turn_s);
      left += seconds;
      searches += steps.back().first.kind == SuiteStep::Kind::done ? 0 : 1;
    }
    notify("{} task{}, about {} of search, and the confirmations\n", tasks.size(),
           tasks.size() == 1 ? "" : "s", duration(left));
    SuiteRemaining remaining(left, searches);
    std::vector<const SuiteTask*> again;
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      const SuiteTask& task = *tasks[i];
      const SuiteStep& step = steps[i].first;
      const std::string& why = steps[i].second;
      const std::string place = fmt::format("{} of {}, {}", i + 1, tasks.size(), task.name);
      if (step.kind == SuiteStep::Kind::done) {
        if (!why.empty()) ended_.troubles[task.name] = why;
        notify("\n{}: {}\n", place, why.empty() ? "finished before" : why);
        continue;
      }
      if (step.kind == SuiteStep::Kind::waits && runtime_.turn_s > 0.0) {
        ended_.waiting.insert(task.name);
        remaining.skips(step.seconds_left);
        notify("\n{}: no answer lies in its mailboxes\n", place);
        continue;
      }
      if (lacking_.contains(task.config.target)) {
        ended_.troubles.erase(task.name);
        remaining.skips(step.seconds_left);
        continue;
      }
      notify("\n{}: {} on {}, workloads {}, {}\n", place, task.config.task->name, name_of(task.config.target),
             task.config.workloads, step.kind == SuiteStep::Kind::begin ? "begins" : "resumes");
      remaining.begins(step.seconds_left);
      const SuiteTaskEnd end = [&] {
        ProgressLine line(verbose_, [&](const Progress& progress) {
          std::vector<ProgressField> fields = fields_of(progress);
          fields.insert(fields.begin(), {place, 1});
          fields.push_back(
              {fmt::format("the suite: about {} left", duration(remaining.seconds(progress))), 0});
          return fields;
        });
        return take_step(task, step, folder_ / task.name, runtime_, line.callbacks(), interrupted());
      }();
      ended_.interrupted = end.interrupted;
      if (end.interrupted) return {};
      remaining.ended();
      if (end.turn_over) again.push_back(&task);
      if (end.waits_for_letters) ended_.waiting.insert(task.name);
      if (end.missing) {
        lacking_.insert(task.config.target);
        const bool others =
            std::ranges::any_of(tasks.begin() + static_cast<std::ptrdiff_t>(i), tasks.end(),
                                [&](const SuiteTask* t) { return !lacking_.contains(t->config.target); });
        if (!searched_ && !others) throw MissingError(end.trouble);
        notify("No other task on {} is searched: this machine lacks what they need\n",
               name_of(task.config.target));
      }
      searched_ = searched_ || !end.missing;
      ended_.troubles[task.name] = end.trouble;
      if (!end.trouble.empty()) notify("{} failed: {}\n", task.name, end.trouble);
      after_each_(ended_.troubles);
    }
    return again;
  }

  const Runtime& runtime_;
  const fs::path folder_;
  const bool verbose_;
  const std::function<void(const Troubles&)> after_each_;
  Ended ended_;
  std::set<Target> lacking_;
  bool searched_ = false;
};

void print(const std::vector<SuiteRow>& rows, const Output& output) {
  const auto cells = suite_cells(rows);
  Table table(cells.front());
  for (std::size_t i = 1; i < cells.size(); ++i) table.row(cells[i]);
  output.line("\n" + table.text());
  output.line("  Ratios and shares of the peak are geometric means over the workloads.");
  for (const std::string& line : suite_notes(rows)) output.line("  " + line);
  for (const std::string& line : suite_troubles(rows)) output.line("  " + line);
}

}  // namespace

int suite_command(const Arguments& arguments) {
  std::string file, run_dir, turn;
  std::vector<std::string> overrides, only;
  bool as_json = false, verbose = false, only_check = false, only_table = false, trust = false;
  Options options(
      "suite",
      "Searches several tasks in turn, each with its own budget, and makes one table of the best kernels, "
      "beside their rivals. Ctrl-C stops with a checkpoint; the same command resumes. A task that fails does "
      "not end the suite.",
      "cultivar suite configs/cpu_suite.yaml");
  options.argument("FILE", file, "the suite (configs/README.md), or an installed one's name");
  options.option("--run-dir", run_dir,
                 "the folder for the table and the runs (default: runs/ and the suite's name)");
  options.each("--only", only, "search only the task of this name; the table shows all");
  options.each("--set", overrides, "a.b=c: replace one value of every task's configuration");
  options.option("--turn", turn,
                 "searches take turns of this length, for example 1m, until each has used its budget or only "
                 "waits for answers in mailboxes; those go on when the same command is given after answers");
  options.flag("--table", only_table, "only make the table of what is recorded so far");
  options.flag("--check", only_check, "only check the suite, its tasks and seeds; run and write nothing");
  options.flag("--trust", trust, "run the programs that resumed records name: see `cultivar resume --help`");
  options.flag("--verbose", verbose, "print a line for every individual");
  options.flag("--json", as_json, "print the table as JSON on stdout");
  if (const auto code = options.parse(arguments)) return *code;

  const std::optional<double> turn_s = turn.empty() ? 0.0 : duration_seconds(turn);
  if (!turn_s || (*turn_s <= 0.0 && !turn.empty()))
    throw InputError(fmt::format("--turn {}: write a duration, such as 60s or 2m", turn));
  const Output output(as_json);
  const InstallationPaths installation = find_installation();
  const fs::path found = find_configuration(installation, file);
  if (found != fs::path(file)) notify("{} is not in the current folder; using {}\n", file, found.string());
  const Suite suite = load_suite(found, overrides, installation_of(installation));
  const std::vector<const SuiteTask*> tasks = chosen(suite, only);
  ContenderTrials trials(installation);
  std::set<std::string> warned;
  if (!only_table)
    for (const std::string& limit : limit_warnings()) notify("Warning: {}.\n", limit);
  if (!only_table)
    for (const SuiteTask* task : tasks) {
      const ConfigPlace place{found, static_cast<std::size_t>(task - suite.tasks.data())};
      check_choices(task->config, place);
      check_programs(task->config, installation, place);
      check_memory(task->config, place);
      for (const ContenderWarning& warning : contender_warnings(task->config, installation, place, trials))
        if (warned.insert(warning.text).second) notify("Warning: {}: {}\n", warning.place, warning.text);
    }
  if (only_check) {
    check(suite, tasks, output);
    return 0;
  }

  const fs::path folder = fs::absolute(run_dir.empty() ? fs::path("runs") / suite.name : fs::path(run_dir));
  if (fs::exists(folder / "run.db"))
    throw InputError(
        fmt::format("{} holds a single search: name another folder with --run-dir", as_typed(folder)));
  std::error_code failed;
  if (only_table && !fs::is_directory(folder, failed))
    throw InputError(fmt::format("{} does not exist: the suite has not begun", as_typed(folder)));
  fs::create_directories(folder, failed);
  if (failed)
    throw std::runtime_error(fmt::format("cannot create {}: {}; name another folder with --run-dir",
                                         as_typed(folder), failed.message()));
  const fs::path installed = installation_of(installation).tasks;
  Ended ended{.troubles = earlier_troubles(folder)};
  if (!only_table) {
    const RunLock lock =
        must(RunLock::take(RunFolder(folder)));  // two suites would disturb each other's measurements
    Runtime runtime = runtime_of(installation);
    runtime.trusts_record = trust;
    runtime.checkpoints_wanted = &checkpoints_wanted();
    runtime.turn_s = *turn_s;
    (void)write_table(suite, folder, ended.troubles, installed);  // the dashboard shows it from now on
    ended = SuiteSession(runtime, folder, verbose, std::move(ended.troubles), [&](const Troubles& troubles) {
              (void)write_table(suite, folder, troubles, installed);
            }).run(tasks);
  }
  const std::vector<SuiteRow> rows = write_table(suite, folder, ended.troubles, installed);
  output.facts(suite_facts(suite.name, rows, today(), suite.refused));
  print(rows, output);
  const auto found_one = std::ranges::find_if(rows, [&](const SuiteRow& row) {
    return row.best && std::ranges::find(tasks, row.name, &SuiteTask::name) != tasks.end();
  });
  output.line(fmt::format("Wrote {} and {}.{}", as_typed(folder / page_name), as_typed(folder / facts_name),
                          found_one == rows.end()
                              ? ""
                              : fmt::format(" Each search is a run: {} show {} best", called_as(),
                                            as_typed(folder / found_one->name))));
  if (!ended.waiting.empty())
    notify(
        "{} search{} for answers in mailboxes (requests lie in the folders of the runs): answer, and give "
        "the same command\n",
        ended.waiting.size(), ended.waiting.size() == 1 ? " waits" : "es wait");
  if (ended.interrupted) {
    std::string command = fmt::format("{} suite {}", called_as(), shell_word(file));
    if (!run_dir.empty()) command += " --run-dir " + shell_word(run_dir);
    for (const std::string& name : only) command += " --only " + shell_word(name);
    if (!turn.empty()) command += " --turn " + shell_word(turn);
    for (const std::string& value : overrides) command += " --set " + shell_word(value);
    notify("Stopped with a checkpoint. To resume:\n  {}\n", command);
    return 130;
  }
  return std::ranges::all_of(rows, [](const SuiteRow& row) { return row.trouble.empty(); }) ? 0 : 1;
}

}  // namespace cultivar
