// SPDX-License-Identifier: Apache-2.0
#include "engine/suite/suite_page.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/export/markdown.hpp"
#include "engine/export/tables.hpp"
#include "engine/suite/suite_fast_p.hpp"
#include "evaluators/system/plain_text.hpp"

namespace cultivar {
namespace {

std::string ratio(double value) {
  return fmt::format("{:.3g}", value);
}

std::string rivals_text(const SuiteBest& best) {
  std::string text;
  for (const SuiteRival& rival : best.rivals)
    text += fmt::format("{}{} {} ({} to {})", text.empty() ? "" : ", ", ratio(rival.speed.mean), rival.name,
                        ratio(rival.speed.lowest), ratio(rival.speed.highest));
  return text;
}

std::string best_rival_text(const SuiteBest& best) {
  if (best.rivals.empty()) return {};
  return fmt::format("{} ({} to {})", ratio(best.best_rival.mean), ratio(best.best_rival.lowest),
                     ratio(best.best_rival.highest));
}

std::string share_text(const SuiteBest& best) {
  if (best.peak.empty()) return {};
  return fmt::format("{} of the {} (at most {})", ratio(best.share.mean),
                     best.peak == "copy" ? "copy rate" : best.peak, ratio(best.share.highest));
}

std::string errors_text(const SuiteBest& best) {
  if (!best.error) return {};
  std::string text = fmt::format("{} permitted", ratio(*best.error));
  for (const SuiteRival& rival : best.rivals)
    if (rival.error) text += fmt::format(", {} {}", ratio(*rival.error), rival.name);
  return text;
}

}  // namespace

std::vector<std::vector<std::string>> suite_cells(const std::vector<SuiteRow>& rows) {
  std::vector<std::vector<std::string>> cells{{"task", "workloads", "best (confirmed)", "x best seed",
                                               "share of peak", "x contenders", "x best contender",
                                               "rms error, x", "made by", "evaluated", "state"}};
  for (const SuiteRow& row : rows) {
    const std::string task = row.name == row.task ? row.name : fmt::format("{} ({})", row.name, row.task);
    if (!row.best) {
      cells.push_back({task, row.workloads, "none", "", "", "", "", "", "",
                       fmt::format("{}", row.evaluations), row.state});
      continue;
    }
    const SuiteBest& best = *row.best;
    const char* const other = best.confirmed ? "" : " during the search, not confirmed";
    cells.push_back({task, row.workloads, fmt::format("{:.4g} {}{}", best.fitness, best.unit, other),
                     best.over_best_seed > 0.0 ? ratio(best.over_best_seed) : "", share_text(best),
                     rivals_text(best), best.rivals.size() > 1 ? best_rival_text(best) : "",
                     errors_text(best), made_text(best), fmt::format("{}", row.evaluations), row.state});
  }
  return cells;
}

std::vector<std::string> suite_troubles(const std::vector<SuiteRow>& rows) {
  std::vector<std::string> lines;
  for (const SuiteRow& row : rows)
    if (!row.trouble.empty()) lines.push_back(row.name + ": " + plain_line(row.trouble, 1000));
  return lines;
}

std::vector<std::string> suite_notes(const std::vector<SuiteRow>& rows) {
  constexpr double kFarApart = 1.3;
  std::vector<std::string> lines;
  for (const SuiteRow& row : rows) {
    if (!row.best || !row.best->confirmed || !(row.best->fitness > 0.0) || !(row.best->searched > 0.0))
      continue;
    const SuiteBest& best = *row.best;
    const double apart = best.fitness / best.searched;
    if (std::max(apart, 1.0 / apart) <= kFarApart) continue;
    lines.push_back(
        fmt::format("{}: #{} reached {:.4g} {} in its confirmation and {:.4g} during the search, {:.2g} x "
                    "apart. Probably this machine had other load {}: look at the ratios, which are "
                    "interleaved, or resume the search on a quieter machine",
                    row.name, best.id, best.fitness, best.unit, best.searched, std::max(apart, 1.0 / apart),
                    apart < 1.0 ? "during the confirmation" : "during the search"));
  }
  return lines;
}

std::string suite_page(const std::string& suite, const std::vector<SuiteRow>& rows, const std::string& date,
                       const std::map<std::string, std::string>& refused) {
  const auto cells = suite_cells(rows);
  MarkdownTable table(cells.front());
  for (std::size_t i = 1; i < cells.size(); ++i) table.row(cells[i]);
  std::set<std::string> devices;
  for (const SuiteRow& row : rows) devices.insert(row.devices.begin(), row.devices.end());
  std::string text = fmt::format(
      "# Suite {}\n\n{}{}\n\n{}", in_a_cell(suite), date,
      devices.empty() ? "" : ", " + in_a_cell(fmt::format("{}", fmt::join(devices, "; "))), table.text());
  text +=
      "\nFitness, ratios and errors are those of the best kernel's confirmation in a fresh process, "
      "interleaved with its "
      "contenders. Ratios are geometric means over the workloads, with the lowest and the highest in "
      "parentheses; `x best contender` "
      "takes the fastest contender of each workload. `share of peak` is a geometric mean too, with the "
      "highest "
      "in parentheses. `x best seed` compares with the fastest seed, "
      "with times of the search, which `cultivar runs` and `status` show. "
      "Errors are rms errors against fp64 on the worst distribution of inputs, over those of the permitted "
      "roundings and of "
      "each contender.\n";
  text += fast_p_section(rows, refused);
  for (const std::string& note : suite_notes(rows)) text += "\n" + in_a_cell(note) + ".\n";
  if (const auto troubles = suite_troubles(rows); !troubles.empty()) {
    text += "\n## Failures\n\n";
    for (const std::string& line : troubles) text += "- " + in_a_cell(line) + "\n";
  }
  for (const SuiteRow& row : rows) {
    if (!row.best) continue;
    text += fmt::format("\n## {}\n\n#{}: {}. {:.0f} s of search, {} evaluated, {} promoted.\n\n",
                        in_a_cell(row.name), row.best->id, in_a_cell(made_text(*row.best)), row.elapsed_s,
                        row.evaluations, row.promotions);
    text += workload_table(row.best->evaluation) + exactness_section(row.best->evaluation);
    text += "\nLineage:\n\n" + lineage_text(row.best->lineage, row.best->unit);
  }
  return text;
}

nlohmann::json suite_facts(const std::string& suite, const std::vector<SuiteRow>& rows,
                           const std::string& date, const std::map<std::string, std::string>& refused) {
  nlohmann::json tasks = nlohmann::json::array();
  for (const SuiteRow& row : rows) tasks.push_back(to_json(row));
  return {{"suite", suite}, {"date", date}, {"tasks", tasks}, {"fast_p", fast_p_facts(rows, refused)}};
}

}  // namespace cultivar
