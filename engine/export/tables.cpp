#include "engine/export/tables.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

#include "evaluators/statistics/bootstrap.hpp"
#include "evaluators/statistics/quantiles.hpp"
#include "evaluators/system/plain_text.hpp"

namespace cultivar {

std::string workload_table(const Evaluation& evaluation) {
  std::set<std::string> contenders;
  for (const auto& workload : evaluation.workloads)
    for (const auto& [name, ratio] : workload.ratios) contenders.insert(name);

  std::string text =
      fmt::format("| workload | median us | 95 % interval | quartiles | samples | {} |", evaluation.unit);
  std::string rule = "|---|---|---|---|---|---|";
  for (const auto& name : contenders) {
    text += fmt::format(" speedup over {} |", name);
    rule += "---|";
  }
  text += "\n" + rule + "\n";
  for (const auto& workload : evaluation.workloads) {
    std::vector<double> times;
    for (const auto& sample : workload.samples) times.push_back(sample.seconds * 1e6);
    std::string interval = "-";
    if (!times.empty()) {
      const auto bounds = bootstrap_interval(times, median, 0.95, 1);
      interval = fmt::format("{:.1f} - {:.1f}", bounds.lower, bounds.upper);
    }
    text += fmt::format("| {} | {:.1f} | {} | {:.1f} - {:.1f} | {} | {:.2f} |", workload.workload,
                        workload.median_us, interval, workload.q1_us, workload.q3_us, times.size(),
                        workload.value);
    for (const auto& name : contenders) {
      const auto it = workload.ratios.find(name);
      text += it == workload.ratios.end() ? " - |" : fmt::format(" {:.3f} |", it->second);
    }
    text += "\n";
  }
  return text;
}

namespace {
std::string step_text(const Individual& individual) {
  std::vector<std::string> values;
  for (const auto& [name, value] : individual.configuration)
    values.push_back(fmt::format("{}={}", name, to_string(value)));
  return fmt::format("{}", fmt::join(values, " "));
}
}  // namespace

std::string in_a_cell(std::string_view text) {
  std::string cell;
  for (const char c : plain_text(text))
    if (c == '&')
      cell += "&amp;";
    else if (c == '<')
      cell += "&lt;";
    else if (c == '>')
      cell += "&gt;";
    else if (c == '\n' || c == '\t')
      cell += ' ';
    else
      cell.append(std::string_view("|\\`[]!").find(c) != std::string_view::npos ? "\\" : "") += c;
  return cell;
}

std::string lineage_text(const std::vector<IndividualRow>& lineage, const std::string& unit) {
  std::string text = fmt::format(
      "| id | operator | parents | {} | gain over the previous row | configuration | note "
      "|\n|---|---|---|---|---|---|---|\n",
      unit);
  double previous = 0.0;
  bool paced = false;
  for (const IndividualRow& row : lineage) {
    const Individual& individual = row.individual;
    const double fitness = individual.fitness / row.pace;
    paced |= row.pace != 1.0;
    const auto gain =
        previous > 0 && fitness > 0 ? fmt::format("{:+.1f} %", 100.0 * (fitness / previous - 1.0)) : "-";
    text += fmt::format(
        "| {} | {} | {} | {} | {} | {} | {} |\n", individual.id, origin_name(individual.descent),
        individual.descent.parents.empty() ? "-"
                                           : fmt::format("{}", fmt::join(individual.descent.parents, ", ")),
        individual.measured ? fmt::format("{:.2f}", individual.fitness) : "rejected at " + row.stage, gain,
        in_a_cell(step_text(individual)), in_a_cell(individual.descent.note));
    if (fitness > 0) previous = fitness;
  }
  if (paced) text += "\nThe device's speed changed during the search; the gains are corrected for that.\n";
  return text;
}

nlohmann::json lineage_json(const std::vector<IndividualRow>& lineage) {
  auto result = nlohmann::json::array();
  for (const auto& row : lineage) {
    nlohmann::json configuration = nlohmann::json::object();
    for (const auto& [name, value] : row.individual.configuration)
      std::visit([&configuration, &key = name](const auto& v) { configuration[key] = v; }, value);
    result.push_back({{"id", row.individual.id},
                      {"variant", row.individual.variant_id},
                      {"operator", origin_name(row.individual.descent)},
                      {"parents", row.individual.descent.parents},
                      {"island", row.individual.descent.island},
                      {"note", row.individual.descent.note},
                      {"fitness", row.individual.fitness},
                      {"measured", row.individual.measured},
                      {"configuration", configuration}});
  }
  return result;
}

}  // namespace cultivar
