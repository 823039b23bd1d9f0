// SPDX-License-Identifier: Apache-2.0
#include "engine/dashboard/dashboard.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "engine/dashboard/page.hpp"
#include "engine/store/kernel_lines.hpp"
#include "engine/store/summary.hpp"
#include "engine/views/islands_view.hpp"
#include "engine/views/kernel_table.hpp"
#include "engine/views/run_list.hpp"
#include "engine/views/run_views.hpp"
#include "engine/views/suite_view.hpp"
#include "evaluators/system/clock.hpp"
#include "evaluators/system/json_text.hpp"
#include "evaluators/system/plain_text.hpp"

namespace cultivar {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr double kFresh = 0.5;         // seconds for which an index is not brought up to date again
constexpr double kFreshList = 5.0;     // the same of the list of runs
constexpr std::size_t kOpenRuns = 12;  // with an index in memory

PageResponse as_json(const json& value) {
  PageResponse response;
  response.type = "application/json; charset=utf-8";
  response.body = json_text(value);
  return response;
}

PageResponse trouble(int status, const std::string& words) {
  PageResponse response = as_json({{"error", plain_line(words, 1000)}});
  response.status = status;
  return response;
}

// Which file it is: another one has taken its place after a recovery.
ino_t number_of(const fs::path& file) {
  struct stat found {};
  return ::stat(file.c_str(), &found) == 0 ? found.st_ino : 0;
}

double now() {
  return in_seconds(Clock::now().time_since_epoch());
}

// Many viewers ask for the same: an answer is made anew only so often that this takes a fiftieth of a core.
struct Answered {
  PageResponse response;
  double at = 0.0, cost = 0.0;
  std::int64_t revision = 0;
};
constexpr double kShare = 50.0, kLeastAge = 1.0, kMostAge = 10.0;  // seconds
constexpr std::size_t kAnswers = 48;                               // of each run, the short ones

struct OpenRun {
  Record record;
  RunIndex index = {};
  IslandsView islands = {};
  ino_t file = 0;
  double updated = -1e9, used = 0.0;
  std::map<std::string, Answered> answers = {};  // by target
};

}  // namespace

struct Dashboard::State {
  std::vector<fs::path> named, folders;
  std::map<std::string, fs::path> runs;  // by the name in addresses
  std::map<std::string, OpenRun> open;
  std::map<std::string, fs::path> suites;  // by the name in addresses
  std::map<std::string, Answered> tables;  // of suites
  double listed = -1e9;
  json list;

  void find_runs();
  OpenRun& run(const std::string& name, bool fresh);
  const json& list_of_runs();
  std::string revision_of_all() const;
  PageResponse table_of(const std::string& suite);
  PageResponse answer(const std::string& text, const PageTarget&);
  PageResponse view(const PageTarget&);
};

namespace {

struct NoSuchRun {
  std::string name;
};

// The name under which an address finds the path.
std::string name_for(std::map<std::string, fs::path>& known, const fs::path& path) {
  for (const auto& [name, each] : known)
    if (each == path) return name;
  const std::string stem = path.filename().string();
  std::string name = stem;
  for (int i = 2; known.contains(name); ++i) name = fmt::format("{}~{}", stem, i);
  known.emplace(name, path);
  return name;
}

}  // namespace

// Names stay as they are while the dashboard runs.
void Dashboard::State::find_runs() {
  const auto add = [&](const fs::path& path) {
    (void)name_for(runs, path);
    if (is_suite(path.parent_path())) (void)name_for(suites, path.parent_path());
  };
  for (const fs::path& path : named) add(path);
  for (const fs::path& folder : folders) {
    if (is_suite(folder)) (void)name_for(suites, folder);
    for (const fs::path& path : runs_below(folder)) add(path);
  }
}

OpenRun& Dashboard::State::run(const std::string& name, bool fresh) {
  if (!runs.contains(name)) find_runs();
  const auto known = name.empty() && runs.size() == 1 ? runs.begin() : runs.find(name);
  if (known == runs.end()) throw NoSuchRun{name};
  const fs::path file = known->second / "run.db";
  const ino_t number = number_of(file);
  auto found = open.find(known->first);
  if (found != open.end() && found->second.file != number) found = (open.erase(found), open.end());
  if (found == open.end()) {
    auto record = Record::open(known->second);
    if (!record) throw std::runtime_error(record.error().message);
    if (open.size() >= kOpenRuns)
      open.erase(std::ranges::min_element(open, {}, [](const auto& each) { return each.second.used; }));
    found = open.emplace(known->first, OpenRun{std::move(*record)}).first;
    found->second.file = number;
  }
  OpenRun& one = found->second;
  one.used = now();
  if (fresh && now() - one.updated > kFresh) {
    one.index.update(one.record);
    one.updated = now();
  }
  return one;
}

const json& Dashboard::State::list_of_runs() {
  if (now() - listed < kFreshList) return list;
  find_runs();
  json all = json::array();
  for (const auto& [name, path] : runs) {
    json one{{"name", name}, {"folder", path.string()}, {"suite", path.parent_path().filename().string()}};
    try {
      if (!is_run(path)) {
        one["trouble"] = "it has no record yet";
      } else if (const auto record = Record::open(path)) {
        one["status"] = summary_of(*record);
        one["created_at"] = record->facts().created_at;
        one["last_step_at"] = last_step_at(*record);
      } else {
        one["trouble"] = plain_line(record.error().message, 500);
      }
    } catch (const std::exception& error) {
      one["trouble"] = plain_line(error.what(), 500);
    }
    all.push_back(std::move(one));
  }
  // The newest activity first; what cannot be read at the end.
  const auto last_step = [](const json& one) { return one.value("last_step_at", 0.0); };
  std::stable_sort(all.begin(), all.end(),
                   [&](const json& a, const json& b) { return last_step(a) > last_step(b); });
  json tables_of = json::array();
  for (const auto& [name, path] : suites) tables_of.push_back(name);
  list = {{"runs", all}, {"suites", tables_of}};
  listed = now();
  return list;
}

// Differs when a record has been written to.
std::string Dashboard::State::revision_of_all() const {
  std::string text;
  for (const auto& [name, path] : runs)
    for (const char* const file : {"run.db", "run.db-wal"}) {
      struct stat found {};
      if (::stat((path / file).c_str(), &found) == 0)
        text += fmt::format("{}.{} ", found.st_mtim.tv_sec, found.st_mtim.tv_nsec);
    }
  return fmt::format("{:x}", std::hash<std::string>()(text));
}

PageResponse Dashboard::State::table_of(const std::string& name) {
  if (!suites.contains(name)) find_runs();
  const auto suite = suites.find(name);
  if (suite == suites.end()) return trouble(404, "The dashboard shows no suite of that name.");
  Answered& kept = tables[name];
  const double begun = now();
  if (kept.at > 0.0 && begun - kept.at < std::max(kFreshList, kShare * kept.cost)) return kept.response;
  find_runs();
  json rows = json::array();
  const auto add = [&](const fs::path& run) {
    rows.push_back(suite_row_view(run));
    const auto shown = std::ranges::find(runs, run, [](const auto& each) { return each.second; });
    rows.back()["run"] = shown == runs.end() ? json() : json(shown->first);
  };
  for (const std::string& task : tasks_of_suite(suite->second)) add(suite->second / task);
  kept.response = as_json({{"suite", name}, {"rows", rows}, {"model", campaign_view(suite->second)}});
  kept.at = now();
  kept.cost = kept.at - begun;
  return kept.response;
}

PageResponse Dashboard::State::answer(const std::string& text, const PageTarget& target) {
  if (target.path == "/api/runs") return as_json(list_of_runs());
  if (target.path == "/api/suite") return table_of(target.value("suite"));
  OpenRun& one = run(target.value("run"), false);
  const std::int64_t revision = revision_of(one.record);
  const double begun = now();
  if (const auto found = one.answers.find(text); found != one.answers.end()) {
    const auto& [response, at, cost, seen] = found->second;
    const double age = begun - at;
    if (age < std::max(kLeastAge, kShare * cost) || (seen == revision && age < kMostAge)) return response;
  }
  PageResponse response = view(target);
  constexpr std::size_t kShort = 1 << 20;
  if (response.body.size() > kShort) return response;
  auto& answers = run(target.value("run"), false).answers;  // view() may have opened the run anew
  if (answers.size() >= kAnswers) answers.clear();
  answers[text] = {response, now(), now() - begun, revision};
  return response;
}

PageResponse Dashboard::State::view(const PageTarget& target) {
  const std::string what = target.path.substr(std::string_view("/api/").size());
  constexpr std::size_t kAny = 1'000'000'000;
  const auto id = [&] { return static_cast<IndividualId>(target.number("id", 0, kAny)); };
  OpenRun& one = run(target.value("run"), true);
  const Record& record = one.record;
  const RunIndex& index = one.index;
  if (what == "state") return as_json(state_view(record, index));
  if (what == "series") return as_json(series_view(index, target.value("by") == "count"));
  if (what == "path") return as_json(path_view(record, index, id()));
  if (what == "children")
    return as_json(
        children_view(record, index, id(), target.number("from", 0, kAny), target.number("count", 30, 200)));
  if (what == "islands") return as_json(one.islands.of(record, index));
  if (what == "failures") return as_json(failures_view(index));
  if (what == "operators") return as_json(operators_view(record, index));
  if (what == "devices") return as_json(devices_view(record, index));
  if (what == "budgets") return as_json(budgets_view(record, index));
  if (what == "interventions") return as_json(interventions_view(record));
  if (what == "events")
    return as_json(events_view(record, static_cast<std::int64_t>(target.number("after", 0, kAny)),
                               static_cast<std::int64_t>(target.number("count", 200, 2000))));
  if (what == "table") {
    TableQuery query;
    query.state = target.value("state");
    query.op = target.value("operator");
    query.model = target.value("model");
    query.stage = target.value("stage");
    query.reason = target.value("reason");
    query.text = target.value("text").substr(0, 200);
    if (!target.value("island").empty()) query.island = static_cast<int>(target.number("island", 0, kAny));
    query.sort = target.value("sort");
    query.descending = target.value("order") != "up";
    query.from = target.number("from", 0, kAny);
    query.count = target.number("count", 50, most_rows);
    return as_json(table_view(record, index, query));
  }
  if (what == "source") {
    if (!index.find(id())) return trouble(404, "This run has no individual with that number.");
    PageResponse response;
    response.body = record.source(id());
    response.headers.emplace_back("Content-Disposition",
                                  "attachment; filename=\"" + source_file(record, id()) + "\"");
    return response;
  }
  if (what == "variant") {
    const json facts = variant_view(record, index, id());
    return facts.is_null() ? trouble(404, "This run has no individual with that number.") : as_json(facts);
  }
  return trouble(404, "There is no such view.");
}

Dashboard::Dashboard(std::vector<fs::path> runs, std::vector<fs::path> folders)
    : state_(std::make_unique<State>()) {
  state_->named = std::move(runs);
  state_->folders = std::move(folders);
  state_->find_runs();
}
Dashboard::~Dashboard() = default;

PageResponse Dashboard::answer(const PageRequest& request) {
  const auto target = parsed_target(request.target);
  if (!target) return said(400, "The address is malformed.");
  const auto file = [](const char* type, std::string body) {
    PageResponse response;
    response.type = std::string(type) + "; charset=utf-8";
    response.body = std::move(body);
    return response;
  };
  if (target->path == "/") return file("text/html", page_html());
  if (target->path == "/style.css") return file("text/css", page_style());
  if (target->path == "/app.js") return file("text/javascript", page_script());
  const std::string run = target->value("run");
  try {
    if (target->path == "/events") {
      if (!run.empty() || state_->runs.size() == 1) (void)state_->run(run, false);  // otherwise of all
      PageResponse response;
      response.type = "text/event-stream";
      response.events_of = run;
      return response;
    }
    if (target->path.starts_with("/api/")) return state_->answer(request.target, *target);
  } catch (const NoSuchRun& missing) {
    return trouble(404, fmt::format("The dashboard shows no run named '{}'.", missing.name));
  } catch (
      const std::exception& error) {  // also of SQLite: a damaged record, one that is just being restored
    state_->open.erase(run);
    return trouble(503, fmt::format("The record cannot be read: {}", error.what()));
  }
  return said(404, "There is no such page.");
}

std::string Dashboard::revision(const std::string& run) {
  try {
    if (run.empty() && state_->runs.size() != 1) return state_->revision_of_all();
    OpenRun& one = state_->run(run, false);
    return fmt::format("{}-{}", one.file, revision_of(one.record));
  } catch (...) {
    return {};
  }
}

}  // namespace cultivar
