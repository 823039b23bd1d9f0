#include "engine/export/tables.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

#include "engine/export/markdown.hpp"
#include "evaluators/statistics/bootstrap.hpp"
#include "evaluators/statistics/quantiles.hpp"

namespace cultivar {

std::string workload_table(const Evaluation& evaluation) {
  std::set<std::string> contenders;
  for (const auto& workload : evaluation.workloads)
    for (const auto& [name, ratio] : workload.ratios) contenders.insert(name);

  std::vector<std::string> heads{"workload",  "median us", "95 % interval",
                                 "quartiles", "samples",   evaluation.unit};
  for (const auto& name : contenders) heads.push_back("speedup over " + name);
  MarkdownTable table(heads);
  for (const auto& workload : evaluation.workloads) {
    std::vector<double> times;
    for (const auto& sample : workload.samples) times.push_back(sample.seconds * 1e6);
    std::string interval = "-";
    if (!times.empty()) {
      const auto bounds = bootstrap_interval(times, median, 0.95, 1);
      interval = fmt::format("{:.1f} - {:.1f}", bounds.lower, bounds.upper);
    }
    std::vector<std::string> cells{workload.workload,
                                   fmt::format("{:.1f}", workload.median_us),
                                   interval,
                                   fmt::format("{:.1f} - {:.1f}", workload.q1_us, workload.q3_us),
                                   fmt::format("{}", times.size()),
                                   fmt::format("{:.2f}", workload.value)};
    for (const auto& name : contenders) {
      const auto it = workload.ratios.find(name);
      cells.push_back(it == workload.ratios.end() ? "-" : fmt::format("{:.3f}", it->second));
    }
    table.row(cells);
  }
  return table.text();
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

std::string exactness_section(const Evaluation& evaluation) {
  const auto rows = exactness_rows(evaluation);
  if (rows.empty()) return {};
  MarkdownTable table(rows.front());
  for (std::size_t i = 1; i < rows.size(); ++i) table.row(rows[i]);
  return "\nErrors against fp64, relative to those of the permitted roundings on the same inputs:\n\n" +
         table.text();
}

namespace {
std::string step_text(const Individual& individual) {
  std::vector<std::string> values;
  for (const auto& [name, value] : individual.configuration)
    values.push_back(fmt::format("{}={}", name, to_string(value)));
  return fmt::format("{}", fmt::join(values, " "));
}
}  // namespace

std::string lineage_text(const std::vector<IndividualRow>& lineage, const std::string& unit) {
  MarkdownTable table(
      {"id", "operator", "parents", unit, "gain over the previous row", "configuration", "note"});
  double previous = 0.0;
  bool paced = false;
  for (const IndividualRow& row : lineage) {
    const Individual& individual = row.individual;
    const double fitness = individual.fitness / row.pace;
    paced |= row.pace != 1.0;
    const auto gain =
        previous > 0 && fitness > 0 ? fmt::format("{:+.1f} %", 100.0 * (fitness / previous - 1.0)) : "-";
    table.row({fmt::format("{}", individual.id), origin_name(individual.descent),
               individual.descent.parents.empty()
                   ? "-"
                   : fmt::format("{}", fmt::join(individual.descent.parents, ", ")),
               individual.measured ? fmt::format("{:.2f}", individual.fitness) : "rejected at " + row.stage,
               gain, step_text(individual), individual.descent.note});
    if (fitness > 0) previous = fitness;
  }
  if (!paced) return table.text();
  return table.text() + "\nThe device's speed changed during the search; the gains are corrected for that.\n";
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
