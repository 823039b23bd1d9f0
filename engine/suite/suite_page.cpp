// SPDX-License-Identifier: Apache-2.0
#include "engine/suite/suite_page.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>

#include "engine/export/tables.hpp"
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
      "interleaved with its contenders. Ratios are geometric means over the workloads, with the lowest and "
      "the highest in parentheses; `x best contender` takes the fastest contender of each workload. `share "
      "of peak` is a geometric mean too, with the highest in parentheses. `x best seed` compares with the "
      "fastest seed, with times of the search, which `cultivar runs` and `status` show. Errors are rms "
      "errors against fp64 on the worst distribution of inputs, over those of the permitted roundings and of "
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

namespace {

constexpr double kThresholds[] = {0.0, 0.5, 1.0, 1.5, 2.0};  // of KernelBench's publications

const SuiteRival* rival_of(const SuiteRow& row, const std::string& name) {
  if (!row.best) return nullptr;
  const auto found = std::ranges::find(row.best->rivals, name, &SuiteRival::name);
  return found == row.best->rivals.end() ? nullptr : &*found;
}

std::set<std::string> contenders_of(const std::vector<SuiteRow>& rows) {
  std::set<std::string> names;
  for (const SuiteRow& row : rows) {
    names.insert(row.contenders.begin(), row.contenders.end());
    if (row.best)
      for (const SuiteRival& rival : row.best->rivals) names.insert(rival.name);
  }
  return names;
}

std::string share(int count, std::size_t of) {
  return fmt::format("{} of {} ({:.2f})", count, of, of == 0 ? 0.0 : count / static_cast<double>(of));
}

std::string ratio_text(const SuiteRow& row, const std::string& contender) {
  const SuiteRival* const rival = rival_of(row, contender);
  if (rival == nullptr) return "-";
  if (!(rival->lower > 0.0)) return fmt::format("{:.3g}", rival->speed.mean);
  return fmt::format("{:.3g} ({:.3g} to {:.3g})", rival->speed.mean, rival->lower, rival->upper);
}

std::string kernel_text(const SuiteRow& row) {
  if (!row.best) return row.trouble.empty() ? row.state : row.trouble;
  return fmt::format("#{}, {}{}", row.best->id, made_text(*row.best),
                     row.best->confirmed ? "" : ", not confirmed");
}

}  // namespace

std::vector<FastP> fast_p(const std::vector<SuiteRow>& rows) {
  std::vector<FastP> all;
  for (const std::string& name : contenders_of(rows)) {
    FastP each{name, {}};
    for (const double p : kThresholds) {
      FastP::Count count{p, 0, 0};
      for (const SuiteRow& row : rows) {
        const SuiteRival* const rival = rival_of(row, name);
        const bool confirmed = row.best && row.best->confirmed;
        count.by_ratio += p == 0.0 ? row.measured > 0 : rival != nullptr && rival->speed.mean > p;
        count.by_bound += p == 0.0 ? confirmed : confirmed && rival != nullptr && rival->lower > p;
      }
      each.counts.push_back(count);
    }
    all.push_back(std::move(each));
  }
  return all;
}

std::string fast_p_section(const std::vector<SuiteRow>& rows,
                           const std::map<std::string, std::string>& refused) {
  const std::vector<FastP> all = fast_p(rows);
  if (all.empty() && refused.empty()) return {};
  const std::size_t problems = rows.size() + refused.size();
  std::vector<std::string> heads{"p"};
  for (const FastP& each : all)
    for (const char* const rule : {"{}, by the ratio", "{}, by its lower bound"})
      heads.push_back(fmt::format(fmt::runtime(rule), each.contender));
  MarkdownTable counts(heads);
  for (std::size_t i = 0; i < std::size(kThresholds); ++i) {
    std::vector<std::string> cells{fmt::format("{:g}", kThresholds[i])};
    for (const FastP& each : all) {
      cells.push_back(share(each.counts[i].by_ratio, problems));
      cells.push_back(share(each.counts[i].by_bound, problems));
    }
    counts.row(cells);
  }
  heads = {"problem", "best kernel"};
  for (const FastP& each : all) heads.push_back("x " + each.contender);
  MarkdownTable each_problem(heads);
  std::string commands;
  for (const SuiteRow& row : rows) {
    std::vector<std::string> cells{row.name, kernel_text(row)};
    for (const FastP& each : all) cells.push_back(ratio_text(row, each.contender));
    each_problem.row(cells);
    if (row.best) commands += "    " + in_code(row.judged_again) + "\n";
  }
  std::string text = fmt::format(
      "\n## fast_p\n\nHow many of the {} problems have a kernel that is correct and more than p times as "
      "fast as the contender; p = 0: that is correct. `by the ratio` is KernelBench's rule "
      "(https://github.com/ScalingIntelligence/KernelBench), with the medians of interleaved runs and with "
      "the checks of this program. `by its lower bound`: the kernel was confirmed in a fresh process with "
      "new inputs, and the lower end of the ratio's 95 % interval exceeds p (of several workloads, the "
      "geometric mean of the lower ends).\n\n{}\n{}",
      problems, counts.text(), each_problem.text());
  if (!commands.empty())
    text += "\nThe commands that judge them again, row by row, in the folder of this table:\n\n" + commands;
  if (refused.empty()) return text;
  text += fmt::format("\n{} of the {} problems {} no task, and counted as not solved:\n\n", refused.size(),
                      problems, refused.size() == 1 ? "is" : "are");
  for (const auto& [name, why] : refused) text += fmt::format("- {}: {}\n", in_a_cell(name), in_a_cell(why));
  return text;
}

nlohmann::json fast_p_facts(const std::vector<SuiteRow>& rows,
                            const std::map<std::string, std::string>& refused) {
  nlohmann::json contenders = nlohmann::json::object();
  for (const FastP& each : fast_p(rows))
    for (const FastP::Count& count : each.counts)
      contenders[each.contender].push_back(
          {{"p", count.p}, {"by_ratio", count.by_ratio}, {"by_lower_bound", count.by_bound}});
  return {{"problems", rows.size() + refused.size()}, {"refused", refused}, {"contenders", contenders}};
}

}  // namespace cultivar
