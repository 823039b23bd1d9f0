// SPDX-License-Identifier: Apache-2.0
#include "engine/views/evaluation_view.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "population/individual.hpp"

namespace cultivar {

using nlohmann::json;

std::optional<BesideContenders> beside_best_contenders(const Evaluation& evaluation) {
  BesideContenders beside;
  double logs = 0.0;
  int count = 0;
  for (const WorkloadResult& w : evaluation.workloads) {
    double least = 0.0;
    for (const auto& [name, ratio] : w.ratios)
      if (ratio > 0.0) least = least > 0.0 ? std::min(least, ratio) : ratio;
    if (!(least > 0.0)) continue;
    if (count == 0 || least < beside.lowest) beside.lowest = least, beside.lowest_on = w.workload;
    beside.highest = std::max(beside.highest, least);
    logs += std::log(least);
    beside.mean = std::exp(logs / ++count);
  }
  return count > 0 ? std::optional(beside) : std::nullopt;
}

std::string words_of(const BesideContenders& beside) {
  return fmt::format("Beside the fastest contender of each workload {} (geometric mean), lowest {} on {}",
                     ratio_words(beside.mean), ratio_words(beside.lowest), beside.lowest_on);
}

std::vector<std::vector<std::string>> exactness_rows(const Evaluation& evaluation) {
  if (evaluation.exactness.empty()) return {};
  std::set<std::string> contenders;
  for (const Exactness& e : evaluation.exactness)
    for (const auto& [name, error] : e.contenders) contenders.insert(name);
  std::vector<std::vector<std::string>> rows{{"error / permitted", "rms", "max"}};
  for (const std::string& name : contenders)
    for (const char* what : {"{} rms", "{} max", "rms / {}"})
      rows.front().push_back(fmt::format(fmt::runtime(what), name));
  for (const Exactness& e : evaluation.exactness) {
    const auto figures = [](const RelativeError& error) {
      const std::string whole_numbers = error.integers == 0 ? ""
                                        : error.wrong > 0   ? fmt::format("{} wrong", error.wrong)
                                                            : "exact";
      if (error.wrong > 0 || (error.integers > 0 && error.max == 0.0))
        return std::vector{whole_numbers, whole_numbers};
      return std::vector{fmt::format("{:.3g}", error.rms), fmt::format("{:.3g}", error.max)};
    };
    std::vector<std::string> cells{e.distribution};
    for (const std::string& figure : figures(e.error)) cells.push_back(figure);
    for (const std::string& name : contenders) {
      const auto found = e.contenders.find(name);
      if (found == e.contenders.end()) {
        cells.insert(cells.end(), 3, "-");
        continue;
      }
      for (const std::string& figure : figures(found->second)) cells.push_back(figure);
      const double theirs = found->second.rms;
      cells.push_back(theirs > 0.0 ? fmt::format("{:.3g}", e.error.rms / theirs) : "-");
    }
    rows.push_back(std::move(cells));
  }
  return rows;
}

std::string exactness_words(const Evaluation& evaluation) {
  const auto worst = std::ranges::max_element(evaluation.exactness, {}, &Exactness::of_allowed);
  if (worst == evaluation.exactness.end() || !(worst->of_allowed > 0.0)) return {};
  return fmt::format(
      "The rms error is at most {:.3g} times (on {} inputs) the sum of what every kernel may have: the rms "
      "error "
      "of the permitted roundings, and an allowance for sums in another order (`tolerance.floor_eps`); a "
      "kernel "
      "is refused beyond `tolerance.factor` (usually 2) times the first plus the second.",
      worst->of_allowed, worst->distribution);
}

std::string checked_words(const Checked& checked) {
  const auto counted = [](std::int64_t count, const char* one, const char* many) {
    return fmt::format("{} {}", count, count == 1 ? one : many);
  };
  std::string ranges;
  for (const auto& [name, range] : checked.ranges)
    ranges += fmt::format("{}{} {:.7g}{}", ranges.empty() ? ": " : ", ", name, range.first,
                          range.first == range.second ? "" : fmt::format(" to {:.7g}", range.second));
  std::string words =
      fmt::format("Right in {} on {} of {}{}.", counted(checked.runs, "run", "runs"),
                  counted(checked.shapes, "shape", "shapes"),
                  counted(checked.specialisations, "specialization", "specializations"), ranges);
  if (checked.left_out > 0)
    words += fmt::format(" {} of specializations that were not compiled {} left to the confirmation.",
                         counted(checked.left_out, "check shape", "check shapes"),
                         checked.left_out == 1 ? "is" : "are");
  return words;
}

json contender_facts(const Evaluation& evaluation) {
  const auto beside = beside_best_contenders(evaluation);
  if (!beside) return {};
  return {{"geometric_mean", beside->mean}, {"lowest", beside->lowest}, {"lowest_on", beside->lowest_on}};
}

json workload_facts(const Evaluation& evaluation) {
  json list = json::array();
  for (const WorkloadResult& w : evaluation.workloads)
    list.push_back({{"name", w.workload},
                    {"median_us", w.median_us},
                    {"q1_us", w.q1_us},
                    {"q3_us", w.q3_us},
                    {"samples", w.samples.size()},
                    {"discarded", w.discarded},
                    {"value", w.value},
                    {"unit", w.unit},
                    {"ratios", json(w.ratios)}});
  return list;
}

json evaluation_facts(const std::string& variant, const std::string& id, const Evaluation& e,
                      const json& profile, const std::vector<BeyondMemory>& beyond) {
  json faster = json::array();
  for (const BeyondMemory& each : beyond)
    faster.push_back({{"workload", each.workload},
                      {"bytes_per_second", each.bytes_per_second},
                      {"of_memory", each.of_memory}});
  return {{"variant", variant},
          {"id", id},
          {"verdict", !e.measured()         ? "rejected"
                      : e.workloads.empty() ? "passed"
                                            : "measured"},
          {"stage", name_of(e.stage)},
          {"reason", e.reason},
          {"diagnostics", e.diagnostics},
          {"contender_troubles", e.contender_troubles},
          {"resources", json(e.resources.values)},
          {"instruction_shares", json(e.resources.shares)},
          {"fitness", e.fitness},
          {"unit", e.unit},
          {"workloads", workload_facts(e)},
          {"best_contender", contender_facts(e)},
          {"exactness", e.exactness},
          {"checked", e.checked ? json(*e.checked) : json()},
          {"largest_elements", e.largest_elements},
          {"coverage", e.coverage ? json(*e.coverage) : json()},
          {"faster_than_memory", faster},
          {"profile", profile},
          {"input_seed", e.input_seed},
          {"machine_code", e.machine_code}};
}

}  // namespace cultivar
