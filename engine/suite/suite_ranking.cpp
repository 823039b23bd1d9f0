// SPDX-License-Identifier: Apache-2.0
#include "engine/suite/suite_ranking.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>

#include "engine/config/duration.hpp"
#include "engine/export/tables.hpp"
#include "engine/store/run_folder.hpp"
#include "engine/store/summary.hpp"
#include "engine/views/evaluation_view.hpp"

namespace cultivar {
namespace fs = std::filesystem;
namespace {

std::optional<Record> record_in(const fs::path& folder) {
  std::error_code none;
  if (!fs::exists(RunFolder(folder).database(), none)) return std::nullopt;
  auto record = Record::open(folder);
  if (!record) return std::nullopt;  // the table says what is wrong with it
  return std::move(*record);
}

double gain_of(const RegionTime& region, double speedup) {
  if (speedup <= 0.0) return 0.0;
  return std::clamp(region.ms - region.alone_ms / speedup, 0.0, std::max(0.0, region.ms - region.floor_ms));
}

std::map<std::string, double> used_in(const Suite& suite, const fs::path& folder) {
  std::map<std::string, double> used;
  for (const SuiteTask& task : suite.tasks)
    if (const auto record = record_in(folder / task.name))
      for (const auto& [kind, use] : summary_of(*record).budget)
        if (kind != "plateau") used[kind] += use.used;
  return used;
}

}  // namespace

RankedTask ranked(std::string name, const RegionTime& region, double searched_s, double speedup,
                  const std::vector<PromotionRow>& promotions) {
  RankedTask task{.name = std::move(name), .searched_s = searched_s, .ms = region.ms, .speedup = speedup};
  task.gain_ms = gain_of(region, speedup);
  task.left_ms = std::max(0.0, region.ms - region.floor_ms - task.gain_ms);
  if (searched_s <= 0.0 || task.gain_ms <= 0.0 || promotions.empty()) return task;
  // What the best kernel of the first half gained: its speedup follows from the two fitnesses.
  double before = 0.0;
  for (const PromotionRow& p : promotions)
    if (p.elapsed_s <= searched_s / 2.0 && promotions.back().fitness > 0.0)
      before = gain_of(region, speedup * p.fitness / promotions.back().fitness);
  task.gain_per_h = std::max(0.0, task.gain_ms - before) / (searched_s / 2.0) * 3600.0;
  return task;
}

RankedTask ranked(const SuiteTask& task, const RegionTime& region, const fs::path& folder) {
  const auto record = record_in(folder);
  if (!record) return ranked(task.name, region, 0.0, 0.0, {});
  double speedup = 0.0;
  if (const auto best = record->best())
    if (const auto confirmed = record->confirmation(*best); confirmed && confirmed->measured()) {
      if (region.call_ms > 0.0 && !confirmed->workloads.empty())
        speedup = 1e3 * region.call_ms / confirmed->workloads.front().median_us;
      else if (const auto beside = beside_best_contenders(*confirmed))
        speedup = beside->mean;
    }
  return ranked(task.name, region, summary_of(*record).elapsed_s, speedup, record->promotions());
}

std::vector<RankedTask> ranking_of(const Suite& suite, const fs::path& folder) {
  std::vector<RankedTask> tasks;
  if (!suite.ranking.empty())
    for (const SuiteTask& task : suite.tasks)
      tasks.push_back(ranked(task, suite.ranking.at(task.name), folder / task.name));
  return tasks;
}

std::optional<std::size_t> next_of(const std::vector<RankedTask>& tasks) {
  // Greater is next: not searched, gain by hour, what is left by hour of search.
  const auto order = [](const RankedTask& task) {
    const bool fresh = task.searched_s <= 0.0;
    return std::tuple(fresh, task.gain_per_h, fresh ? task.left_ms : task.left_ms / task.searched_s);
  };
  std::optional<std::size_t> next;
  for (std::size_t i = 0; i < tasks.size(); ++i)
    if (tasks[i].can_go_on && (!next || order(tasks[i]) > order(tasks[*next]))) next = i;
  return next;
}

std::string reached_limit(const Suite& suite, const fs::path& folder) {
  const auto used = used_in(suite, folder);
  for (const auto& [kind, most] : suite.limits)
    if (const auto own = used.find(kind); own != used.end() && own->second >= most)
      return kind == "wall" ? fmt::format("{} of search", duration(most))
                            : fmt::format("{:g} {}", most, kind);
  return {};
}

double seconds_left(const Suite& suite, const fs::path& folder) {
  const auto wall = suite.limits.find("wall");
  if (wall == suite.limits.end()) return 0.0;
  const auto used = used_in(suite, folder);
  const auto own = used.find("wall");
  return std::max(0.0, wall->second - (own == used.end() ? 0.0 : own->second));
}

std::vector<std::vector<std::string>> ranking_cells(const std::vector<RankedTask>& tasks) {
  std::vector<std::vector<std::string>> cells{{"region", "ms of a pass", "searched", "x as fast", "gains, ms",
                                               "gains in an hour of search, ms", "could be gained, ms"}};
  for (const RankedTask& task : tasks)
    cells.push_back({task.name, fmt::format("{:.3g}", task.ms), fmt::format("{:.0f} s", task.searched_s),
                     task.speedup > 0.0 ? fmt::format("{:.3g}", task.speedup) : "",
                     fmt::format("{:.3g}", task.gain_ms), fmt::format("{:.3g}", task.gain_per_h),
                     fmt::format("{:.3g}", task.left_ms)});
  return cells;
}

std::string ranking_section(const std::vector<RankedTask>& tasks) {
  if (tasks.empty()) return {};
  const auto cells = ranking_cells(tasks);
  MarkdownTable table(cells.front());
  for (std::size_t i = 1; i < cells.size(); ++i) table.row(cells[i]);
  return "\n## What the model gains\n\n" + table.text() +
         "\nMilliseconds of one pass of the model, of all calls of a region together. `could be gained` goes "
         "down to what the machine needs at least. The search goes on where the later half of the time "
         "gained most.\n";
}

nlohmann::json ranking_facts(const std::vector<RankedTask>& tasks) {
  nlohmann::json facts = nlohmann::json::array();
  for (const RankedTask& task : tasks)
    facts.push_back({{"name", task.name},
                     {"ms", task.ms},
                     {"searched_s", task.searched_s},
                     {"speedup", task.speedup},
                     {"gain_ms", task.gain_ms},
                     {"gain_ms_per_hour", task.gain_per_h},
                     {"left_ms", task.left_ms}});
  return facts;
}

}  // namespace cultivar
