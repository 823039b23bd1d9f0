// SPDX-License-Identifier: Apache-2.0
#include "engine/suite/suite_fast_p.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/export/markdown.hpp"

namespace cultivar {
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
      "fast as "
      "the contender; p = 0: that is correct. "
      "`by the ratio` is KernelBench's rule (https://github.com/ScalingIntelligence/KernelBench), with the "
      "medians of interleaved runs and with the checks of this program. `by its lower bound`: the kernel was "
      "confirmed in a fresh process with new inputs, and the lower end of the ratio's 95 % interval exceeds "
      "p (of "
      "several workloads, the geometric mean of the lower ends).\n\n{}\n{}",
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
