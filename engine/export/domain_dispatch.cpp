// SPDX-License-Identifier: Apache-2.0
#include "engine/export/domain_dispatch.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "evaluators/statistics/bootstrap.hpp"
#include "evaluators/statistics/location.hpp"
#include "evaluators/system/json_fields.hpp"

namespace cultivar {
namespace {

using nlohmann::json;

double infinite_if_absent(const std::map<IndividualId, double>& times, IndividualId kernel) {
  const auto found = times.find(kernel);
  return found == times.end() ? std::numeric_limits<double>::infinity() : found->second;
}

}  // namespace

void to_json(json& j, const ShapeTimes& t) {
  json kernels = json::object(), failed = json::object();
  for (const auto& [id, seconds] : t.kernels) kernels[std::to_string(id)] = seconds;
  for (const auto& [id, why] : t.failed) failed[std::to_string(id)] = why;
  j = {{"shape", t.shape}, {"values", t.values},     {"kernels", kernels},  {"contenders", t.contenders},
       {"failed", failed}, {"left_out", t.left_out}, {"spent_s", t.spent_s}};
}

void from_json(const json& j, ShapeTimes& t) {
  t = {};
  j.at("shape").get_to(t.shape);
  for (const auto& [name, value] : j.at("values").items()) t.values[name] = value.get<double>();
  for (const auto& [id, seconds] : j.at("kernels").items()) t.kernels[std::stoll(id)] = seconds.get<double>();
  for (const auto& [id, why] : j.at("failed").items()) t.failed[std::stoll(id)] = why.get<std::string>();
  j.at("contenders").get_to(t.contenders);
  j.at("left_out").get_to(t.left_out);
  j.at("spent_s").get_to(t.spent_s);
}

CULTIVAR_JSON(DomainDispatch, domain, most_bytes, most_seconds, kernels, table, learnt, drawn, listed,
              left_out)

TimedShape timed_shape(const ShapeTimes& times, const std::vector<IndividualId>& kernels) {
  TimedShape shape{times.values, {}};
  for (const IndividualId id : kernels) shape.seconds.push_back(infinite_if_absent(times.kernels, id));
  return shape;
}

DispatchFigures figures_of(const DomainDispatch& dispatch, const std::vector<ShapeTimes>& shapes) {
  DispatchFigures figures;
  std::vector<double> regrets, ratios;
  for (const ShapeTimes& times : shapes) {
    if (!times.left_out.empty()) continue;
    const TimedShape shape = timed_shape(times, dispatch.kernels);
    regrets.push_back(regret(dispatch.table, shape));
    if (figures.worst_on.empty() || regrets.back() > figures.worst)
      figures.worst = regrets.back(), figures.worst_on = times.shape;
    if (times.contenders.empty()) continue;
    double fastest = std::numeric_limits<double>::infinity();
    for (const auto& [name, seconds] : times.contenders) fastest = std::min(fastest, seconds);
    ratios.push_back(fastest / (regrets.back() * shape.best()));
    if (figures.least_on.empty() || ratios.back() < figures.least)
      figures.least = ratios.back(), figures.least_on = times.shape;
  }
  figures.shapes = regrets.size();
  figures.beside = ratios.size();
  if (!regrets.empty()) figures.regret = geometric_mean(regrets);
  if (!ratios.empty()) {
    figures.ratio = geometric_mean(ratios);
    const Interval interval = bootstrap_interval(ratios, geometric_mean, 0.95, 1);
    figures.lower = interval.lower, figures.upper = interval.upper;
  }
  return figures;
}

void to_json(json& j, const DispatchFigures& f) {
  j = {{"shapes", f.shapes}};
  if (f.shapes > 0)
    j["regret"] = {{"geometric_mean", f.regret}, {"worst", f.worst}, {"worst_on", f.worst_on}};
  if (f.beside > 0)
    j["beside_the_fastest_contender"] = {{"shapes", f.beside},
                                         {"geometric_mean", f.ratio},
                                         {"interval_95", {f.lower, f.upper}},
                                         {"least", f.least},
                                         {"least_on", f.least_on}};
}

std::string words_of(const DispatchFigures& f, const std::string& shapes) {
  if (f.shapes == 0) return fmt::format("No time was measured on {}.", shapes);
  std::string words = fmt::format(
      "On {} {}, the kernel that the table chooses takes {:.3f} times as long as the best of them (geometric "
      "mean; goal {:.2f}{}), at most {:.3f} times (on {}; goal {:.2f}{}).",
      f.shapes, shapes, f.regret, kGoalRegret, f.regret <= kGoalRegret ? "" : ", missed", f.worst, f.worst_on,
      kGoalWorstRegret, f.worst <= kGoalWorstRegret ? "" : ", missed");
  if (f.beside == 0) return words + " No contender was timed beside it.";
  return words +
         fmt::format(
             " It has {:.3f} times the speed of the fastest contender of each of the {} shapes that "
             "one computed (geometric mean; 95 % interval {:.3f} - {:.3f}), at least {:.3f} times (on "
             "{}).",
             f.ratio, f.beside, f.lower, f.upper, f.least, f.least_on);
}

std::vector<std::string> rules_of(const DispatchTable& table, const std::vector<IndividualId>& kernels) {
  std::vector<std::string> lines;
  for (const std::size_t leaf : table.leaves()) {
    const auto conditions = table.conditions_of(leaf);
    std::vector<std::string> order;
    for (const std::size_t kernel : table.nodes[leaf].order)
      order.push_back(fmt::format("#{}", kernels.at(kernel)));
    lines.push_back(
        fmt::format("{}: {} ({} shapes)",
                    conditions.empty() ? "always" : fmt::format("{}", fmt::join(conditions, " and ")),
                    fmt::join(order, ", then "), table.nodes[leaf].shapes));
  }
  return lines;
}

}  // namespace cultivar
