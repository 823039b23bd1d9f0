// SPDX-License-Identifier: Apache-2.0
#include "engine/suite/suite.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "engine/config/duration.hpp"
#include "evaluators/system/json_text.hpp"
#include "evaluators/system/plain_text.hpp"
#include "evaluators/yaml/strict_yaml.hpp"

namespace cultivar {
namespace fs = std::filesystem;
namespace {

YamlNode completed(YamlNode item, const std::optional<YamlNode>& common) {
  YamlMap own = item.map();
  if (common)
    for (const auto& [key, value] : common->map().entries())
      if (!own.has(key)) item = item.with(key, value);
  YamlMap map = item.map();
  if (!map.has("name")) {
    const std::string task = fs::path(map.require("task").string()).lexically_normal().filename();
    item = item.with("name", parse_yaml(json_text(task), item.origin(), item.line()));
  }
  return item;
}

bool limited(const Budget& budget) {
  return budget.wall_s > 0 || budget.evaluations > 0 || budget.device_s > 0 || budget.plateau_s > 0 ||
         budget.models.usd || budget.models.tokens;
}

std::string without(const std::string& place, std::string message) {
  const std::size_t at = message.find(place);
  if (at == std::string::npos) return message;
  const std::size_t more = message.compare(at + place.size(), 2, ": ") == 0 ? 2 : 1;  // or a dot
  return message.erase(at, place.size() + more);
}

// What is wrong in `common` or with --set is wrong for each task, and is said once.
std::string complaints(const std::vector<std::pair<std::string, std::string>>& wrong) {
  std::vector<std::string> lines;
  for (const auto& [common, own] : wrong) {
    const bool alone = std::ranges::count(wrong, common, &std::pair<std::string, std::string>::first) == 1;
    const std::string& line = alone ? own : common;
    if (std::ranges::find(lines, line) == lines.end()) lines.push_back(line);
  }
  return fmt::format("{}", fmt::join(lines, "\n"));
}

// `ranking` and `budget`.
void read_ranking(YamlMap& map, Suite& suite) {
  const auto ranking = map.optional("ranking"), budget = map.optional("budget");
  if (budget && !ranking)
    map.require("budget").fail(
        "only a suite with a ranking has a budget of its own: write that of each search below `common`");
  if (ranking)
    for (const auto& [name, node] : ranking->map().entries()) {
      YamlMap own = node.map();
      RegionTime& region = suite.ranking[name];
      region.ms = own.require("ms").number(0.0);
      region.floor_ms = own.require("floor_ms").number(0.0);
      region.alone_ms = region.ms;
      if (const auto alone = own.optional("alone_ms")) region.alone_ms = alone->number(0.0);
      if (const auto call = own.optional("call_ms")) region.call_ms = call->number(0.0);
      own.finish();
    }
  if (!budget) return;
  YamlMap limits = budget->map();
  if (const auto wall = limits.optional("wall")) suite.limits["wall"] = read_duration(*wall);
  for (const char* kind : {"device_hours", "usd", "tokens"})
    if (const auto most = limits.optional(kind)) suite.limits[kind] = most->number(0.0);
  limits.finish();
}

}  // namespace

Suite load_suite(const fs::path& file, const std::vector<std::string>& overrides,
                 const Installation& installation) {
  YamlMap map = read_yaml(file).map();
  if (map.has("task") && !map.has("tasks"))
    map.require("task").fail(fmt::format("this is one search: cultivar run {}", shell_word(file.string())));
  Suite suite;
  suite.name = read_folder_name(map.require("name"));
  const auto common = map.optional("common");
  if (common && common->map().has("name"))
    common->map().require("name").fail("each task has its own name: write it below `tasks`");
  const YamlNode list = map.require("tasks");
  if (const auto refused = map.optional("refused"))
    for (const auto& [name, why] : refused->map().entries()) suite.refused[name] = why.string();
  read_ranking(map, suite);
  map.finish();
  std::vector<std::pair<std::string, std::string>> wrong;  // without the place in the list, and with it
  std::size_t number = 0;
  for (const YamlNode& item : list.items()) try {
      ++number;
      SuiteTask task{
          "", config_of(completed(item, common), fs::absolute(file).parent_path(), overrides, installation)};
      task.name = task.config.name;
      task.given = overrides;
      if (!limited(task.config.budget) && suite.limits.contains("wall"))
        task.config.budget.wall_s = suite.limits["wall"];
      if (!limited(task.config.budget))
        item.fail(
            "the search has no budget, so that the suite would never reach the next task: add for example "
            "budget: {wall: 5m}");
      if (std::ranges::any_of(suite.tasks, [&](const SuiteTask& t) { return t.name == task.name; }))
        item.fail(fmt::format("two searches are named '{}': give one of them another `name`", task.name));
      suite.tasks.push_back(std::move(task));
    } catch (const InputError& error) {
      wrong.emplace_back(without(fmt::format("tasks[{}]", number - 1), error.what()), error.what());
    }
  if (!wrong.empty()) throw InputError(complaints(wrong));
  for (const auto& [name, region] : suite.ranking)
    if (std::ranges::find(suite.tasks, name, &SuiteTask::name) == suite.tasks.end())
      map.require("ranking").fail(fmt::format("there is no task {}", name));
  for (const SuiteTask& task : suite.tasks)
    if (!suite.ranking.empty() && !suite.ranking.contains(task.name))
      map.require("ranking").fail(fmt::format("it lacks the task {}", task.name));
  if (suite.tasks.empty()) list.fail("the list is empty: name at least one task, as - {task: softmax}");
  return suite;
}

}  // namespace cultivar
