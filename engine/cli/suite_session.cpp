// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/suite_session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/cli/config_checks.hpp"
#include "engine/cli/interrupt.hpp"
#include "engine/cli/output.hpp"
#include "engine/cli/progress_line.hpp"
#include "engine/cli/search_session.hpp"
#include "engine/config/duration.hpp"
#include "engine/store/run_folder.hpp"
#include "engine/suite/suite_page.hpp"
#include "engine/suite/suite_ranking.hpp"
#include "engine/suite/suite_run.hpp"
#include "evaluators/system/files.hpp"
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

nlohmann::json facts_of(const Suite& suite, const fs::path& folder, const std::vector<SuiteRow>& rows) {
  nlohmann::json facts = suite_facts(suite.name, rows, today(), suite.refused);
  if (!suite.ranking.empty()) facts["ranking"] = ranking_facts(ranking_of(suite, folder));
  return facts;
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
  must(write_atomically(folder / page_name, suite_page(suite.name, rows, today(), suite.refused) +
                                                ranking_section(ranking_of(suite, folder))));
  must(write_atomically(folder / facts_name, json_text(facts_of(suite, folder, rows), 2) + "\n"));
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
  SuiteSession(Runtime runtime, fs::path folder, bool verbose, Troubles troubles,
               std::function<void(const Troubles&)> after_each)
      : runtime_(std::move(runtime)),
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

  // Always the search that is expected to gain most, one slice after another, by what the records say.
  Ended run_ranked(const Suite& suite, const std::vector<const SuiteTask*>& tasks, double slice_s) {
    std::set<std::string>
        over;  // finished, failed or waiting in this call: a region that fails is left as it was
    while (!ended_.interrupted) {
      if (const std::string limit = reached_limit(suite, folder_); !limit.empty()) {
        notify(
            "\nThe budget of the campaign is used: {}. To search on, raise `budget` in its campaign.yaml\n",
            limit);
        break;
      }
      std::vector<RankedTask> ranking;
      std::vector<SuiteStep> steps;
      for (const SuiteTask* task : tasks) {
        ranking.push_back(ranked(*task, suite.ranking.at(task->name), folder_ / task->name));
        const auto step = next_step(*task, folder_ / task->name);
        if (!step) ended_.troubles[task->name] = step.error().text();
        steps.push_back(step.value_or(SuiteStep{.kind = SuiteStep::Kind::done}));
        if (steps.back().kind == SuiteStep::Kind::waits) ended_.waiting.insert(task->name);
        ranking.back().can_go_on = steps.back().kind <= SuiteStep::Kind::resume &&
                                   !over.contains(task->name) && !lacking_.contains(task->config.target);
      }
      const auto next = next_of(ranking);
      if (!next) break;
      const RankedTask& best = ranking[*next];
      notify("\n{} is next: {}\n", best.name,
             best.searched_s <= 0.0
                 ? fmt::format("it was not searched, and at most {:.3g} ms of a pass can be gained",
                               best.left_ms)
                 : fmt::format("it gained {:.3g} ms of a pass for an hour of search, and {:.3g} ms are left",
                               best.gain_per_h, best.left_ms));
      const double left = seconds_left(suite, folder_);
      runtime_.turn_s = left > 0.0 ? std::min(slice_s, left) : slice_s;
      // A promotion changes the ranking: the turn ends if the search of another region is then the next.
      std::atomic<bool> turn_ends = false;
      runtime_.turn_ends = &turn_ends;
      const auto promoted = [&](const Event& event) {
        if (event.kind != "promoted") return;
        std::vector<RankedTask> now;
        for (std::size_t i = 0; i < tasks.size(); ++i) {
          now.push_back(ranked(*tasks[i], suite.ranking.at(tasks[i]->name), folder_ / tasks[i]->name));
          now.back().can_go_on = ranking[i].can_go_on;
        }
        turn_ends = next_of(now) != next;
      };
      const SuiteTaskEnd end = take(
          *tasks[*next], steps[*next], best.name, [&](const Progress&) { return left; }, promoted);
      runtime_.turn_ends = nullptr;
      if (end.interrupted) break;
      if (end.missing && !searched_) throw MissingError(end.trouble);
      if (!end.turn_over) over.insert(best.name);
      say(*tasks[*next], end);
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
      remaining.begins(step.seconds_left);
      const SuiteTaskEnd end =
          take(task, step, place, [&](const Progress& progress) { return remaining.seconds(progress); });
      if (end.interrupted) return {};
      remaining.ended();
      if (end.turn_over) again.push_back(&task);
      if (end.missing) {
        const bool others =
            std::ranges::any_of(tasks.begin() + static_cast<std::ptrdiff_t>(i), tasks.end(),
                                [&](const SuiteTask* t) { return !lacking_.contains(t->config.target); });
        if (!searched_ && !others) throw MissingError(end.trouble);
        notify("No other task on {} is searched: this machine lacks what they need\n",
               name_of(task.config.target));
      }
      say(task, end);
    }
    return again;
  }

  // Does a step of a search, which shows how long all of them still take.
  SuiteTaskEnd take(const SuiteTask& task, const SuiteStep& step, const std::string& place,
                    const std::function<double(const Progress&)>& seconds_left,
                    const std::function<void(const Event&)>& also = {}) {
    notify("\n{}: {} on {}, workloads {}, {}\n", place, task.config.task->name, name_of(task.config.target),
           task.config.workloads, step.kind == SuiteStep::Kind::begin ? "begins" : "resumes");
    ProgressLine line(verbose_, [&](const Progress& progress) {
      std::vector<ProgressField> fields = fields_of(progress);
      fields.insert(fields.begin(), {place, 1});
      fields.push_back({fmt::format("the suite: about {} left", duration(seconds_left(progress))), 0});
      return fields;
    });
    SearchCallbacks callbacks = line.callbacks();
    if (also)
      callbacks.event = [&also, shown = callbacks.event](const Event& event) {
        shown(event);
        also(event);
      };
    SuiteTaskEnd end = take_step(task, step, folder_ / task.name, runtime_, callbacks, interrupted());
    ended_.interrupted = end.interrupted;
    if (end.waits_for_letters) ended_.waiting.insert(task.name);
    if (end.missing) lacking_.insert(task.config.target);
    if (!end.interrupted) searched_ = searched_ || !end.missing;
    return end;
  }

  // After everything that is printed of a step: its trouble, and the table.
  void say(const SuiteTask& task, const SuiteTaskEnd& end) {
    ended_.troubles[task.name] = end.trouble;
    if (!end.trouble.empty()) notify("{} failed: {}\n", task.name, end.trouble);
    after_each_(ended_.troubles);
  }

  Runtime runtime_;
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

std::string campaign_file(const std::string& folder) {
  const fs::path file = fs::path(folder) / "campaign.yaml";
  std::error_code none;
  if (!fs::exists(file, none))
    throw InputError(
        fmt::format("{} has no campaign.yaml: `{} import MODEL.py:build --inputs INPUTS --out "
                    "FOLDER` makes one of a model, if something can be gained",
                    folder, called_as()));
  return file.string();
}

std::string campaign_runs(const std::string& folder) {
  return (fs::path(folder) / "runs").string();
}

int suite_session(const SuiteCall& call) {
  const Output output(call.as_json);
  const InstallationPaths installation = find_installation();
  const fs::path found = find_configuration(installation, call.file);
  if (found != fs::path(call.file))
    notify("{} is not in the current folder; using {}\n", call.file, found.string());
  const Suite suite = load_suite(found, call.overrides, installation_of(installation));
  const std::vector<const SuiteTask*> tasks = chosen(suite, call.only);
  ContenderTrials trials(installation);
  std::set<std::string> warned;
  if (!call.only_table)
    for (const std::string& limit : limit_warnings()) notify("Warning: {}.\n", limit);
  if (!call.only_table)
    for (const SuiteTask* task : tasks) {
      const ConfigPlace place{found, static_cast<std::size_t>(task - suite.tasks.data())};
      check_choices(task->config, place);
      check_programs(task->config, installation, place);
      check_memory(task->config, place);
      for (const ContenderWarning& warning : contender_warnings(task->config, installation, place, trials))
        if (warned.insert(warning.text).second) notify("Warning: {}: {}\n", warning.place, warning.text);
    }
  if (call.only_check) {
    check(suite, tasks, output);
    return 0;
  }

  const fs::path folder =
      fs::absolute(call.run_dir.empty() ? fs::path("runs") / suite.name : fs::path(call.run_dir));
  if (fs::exists(folder / "run.db"))
    throw InputError(
        fmt::format("{} holds a single search: name another folder with --run-dir", as_typed(folder)));
  std::error_code failed;
  if (call.only_table && !fs::is_directory(folder, failed))
    throw InputError(fmt::format("{} does not exist: the suite has not begun", as_typed(folder)));
  fs::create_directories(folder, failed);
  if (failed)
    throw std::runtime_error(fmt::format("cannot create {}: {}; name another folder with --run-dir",
                                         as_typed(folder), failed.message()));
  const fs::path installed = installation_of(installation).tasks;
  Ended ended{.troubles = earlier_troubles(folder)};
  if (!call.only_table) {
    const RunLock lock =
        must(RunLock::take(RunFolder(folder)));  // two suites would disturb each other's measurements
    Runtime runtime = runtime_of(installation);
    runtime.trusts_record = call.trust;
    runtime.checkpoints_wanted = &checkpoints_wanted();
    runtime.turn_s = call.turn_s;
    (void)write_table(suite, folder, ended.troubles, installed);  // the dashboard shows it from now on
    SuiteSession session(
        runtime, folder, call.verbose, std::move(ended.troubles),
        [&](const Troubles& troubles) { (void)write_table(suite, folder, troubles, installed); });
    ended = suite.ranking.empty()
                ? session.run(tasks)
                : session.run_ranked(suite, tasks, call.turn_s > 0.0 ? call.turn_s : kUsualSlice);
  }
  const std::vector<SuiteRow> rows = write_table(suite, folder, ended.troubles, installed);
  output.facts(facts_of(suite, folder, rows));
  print(rows, output);
  if (const auto ranking = ranking_of(suite, folder); !ranking.empty()) {
    const auto cells = ranking_cells(ranking);
    Table table(cells.front());
    for (std::size_t i = 1; i < cells.size(); ++i) table.row(cells[i]);
    output.line("\n" + table.text());
  }
  const auto found_one = std::ranges::find_if(rows, [&](const SuiteRow& row) {
    return row.best && std::ranges::find(tasks, row.name, &SuiteTask::name) != tasks.end();
  });
  output.line(fmt::format("Wrote {} and {}.{}", as_typed(folder / page_name), as_typed(folder / facts_name),
                          found_one == rows.end()
                              ? ""
                              : fmt::format(" Each search is a run: {} show {} best", called_as(),
                                            as_typed(folder / found_one->name))));
  if (!suite.ranking.empty() && found_one != rows.end())
    output.line(fmt::format("\n  {} apply {} --out fast  puts kernels into the model, and proves it",
                            called_as(), shell_word(as_typed(found.parent_path()))));
  if (!ended.waiting.empty())
    notify(
        "{} search{} for answers in mailboxes (requests lie in the folders of the runs): answer, and give "
        "the same command\n",
        ended.waiting.size(), ended.waiting.size() == 1 ? " waits" : "es wait");
  if (ended.interrupted) {
    notify("Stopped with a checkpoint. To resume:\n  {}\n", call.again);
    return 130;
  }
  return std::ranges::all_of(rows, [](const SuiteRow& row) { return row.trouble.empty(); }) ? 0 : 1;
}

}  // namespace cultivar
