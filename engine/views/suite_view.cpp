// SPDX-License-Identifier: Apache-2.0
#include "engine/views/suite_view.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/store/record.hpp"
#include "engine/store/summary.hpp"
#include "engine/views/evaluation_view.hpp"
#include "engine/views/run_list.hpp"
#include "evaluators/system/files.hpp"
#include "evaluators/system/json_text.hpp"
#include "evaluators/system/plain_text.hpp"

namespace cultivar {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr std::size_t kMostBytes = 64 << 20;  // of a table
constexpr std::size_t kWords = 500;           // bytes of what a record says

json table_in(const fs::path& suite) {
  return foreign_json(read_file(suite / kSuiteTable, kMostBytes).value_or(""));
}

// Of the fastest contender; 0: none was timed.
double contender_us(const WorkloadResult& w) {
  double least = 0.0;
  for (const auto& [name, ratio] : w.ratios)
    if (ratio > 0.0) least = least > 0.0 ? std::min(least, ratio) : ratio;
  return least * w.median_us;
}

double seed_us(const std::optional<Evaluation>& seed, const std::string& workload) {
  if (!seed) return 0.0;
  const auto found = std::ranges::find(seed->workloads, workload, &WorkloadResult::workload);
  return found == seed->workloads.end() ? 0.0 : found->median_us;
}

void add_times(json& row, const Record& record, const Evaluation& best) {
  const auto seed = record.first_seed();
  const auto first = seed ? record.evaluation(*seed) : std::nullopt;
  double before = 0.0, after = 0.0;
  bool contenders = false, seeds = false;
  for (const WorkloadResult& w : best.workloads) {
    const double rival = contender_us(w), own = rival > 0.0 ? rival : seed_us(first, w.workload);
    if (!(own > 0.0)) return;
    (rival > 0.0 ? contenders : seeds) = true;
    before += own;
    after += w.median_us;
  }
  if (!(after > 0.0)) return;
  row["before_us"] = before;
  row["after_us"] = after;
  row["before"] = !seeds ? "contenders" : contenders ? "contenders and the first seed" : "the first seed";
}

void add_errors(json& row, const Evaluation& best) {
  double error = 0.0, beside = 0.0;
  for (const Exactness& e : best.exactness) {
    error = std::max(error, e.error.rms);
    for (const auto& [name, theirs] : e.contenders)
      if (theirs.rms > 0.0) beside = std::max(beside, e.error.rms / theirs.rms);
  }
  row["error"] = error > 0.0 ? json(error) : json();
  row["error_beside"] = beside > 0.0 ? json(beside) : json();
}

void add_best(json& row, const Record& record, const Best& best) {
  row["best"] = {{"id", best.id},
                 {"fitness", best.fitness},
                 {"unit", best.unit},
                 {"ratio_to_seed", best.ratio_to_seed ? json(*best.ratio_to_seed) : json()},
                 {"ratios", best.ratios}};
  if (const auto made = record.individual(best.id)) {
    row["operator"] = origin_name(made->individual.descent);
    row["model"] = made->individual.descent.model;
  }
  auto evaluation = record.confirmation(best.id);
  row["confirmed"] = evaluation && evaluation->measured();
  if (!evaluation || !evaluation->measured()) evaluation = record.evaluation(best.id);
  if (!evaluation) return;
  if (const auto beside = beside_best_contenders(*evaluation))
    row["beside"] = {{"mean", beside->mean}, {"lowest", beside->lowest}, {"lowest_on", beside->lowest_on}};
  add_times(row, record, *evaluation);
  add_errors(row, *evaluation);
}

}  // namespace

bool is_suite(const fs::path& folder) {
  std::error_code none;
  return fs::is_regular_file(folder / kSuiteTable, none);
}

json campaign_view(const fs::path& folder) {
  const auto number = [](const json& of, const char* name) {
    const bool known = of.is_object() && of.contains(name) && of[name].is_number();
    return known ? std::max(0.0, of[name].get<double>()) : 0.0;
  };
  const json facts = table_in(folder);
  if (!facts.is_object() || !facts.contains("ranking") || !facts["ranking"].is_array()) return {};
  const double pass =
      number(foreign_json(read_file(folder.parent_path() / "profile.json", kMostBytes).value_or("")), "ms");
  json regions = json::array();
  for (const json& each : facts["ranking"])
    if (each.is_object() && each.contains("name") && each["name"].is_string())
      regions.push_back({{"name", plain_line(each["name"].get<std::string>(), kWords)},
                         {"ms", number(each, "ms")},
                         {"gain_ms", std::min(number(each, "gain_ms"), number(each, "ms"))},
                         {"left_ms", number(each, "left_ms")}});
  return {{"pass_ms", pass > 0.0 ? json(pass) : json()}, {"regions", regions}};
}

std::vector<std::string> tasks_of_suite(const fs::path& folder) {
  std::vector<std::string> names;
  const json facts = table_in(folder);
  if (!facts.is_object() || !facts.contains("tasks") || !facts["tasks"].is_array()) return names;
  for (const json& task : facts["tasks"]) {
    if (!task.is_object() || !task.contains("name") || !task["name"].is_string()) continue;
    const std::string name = task["name"].get<std::string>();
    if (!name.empty() && !name.starts_with('.') && name.find('/') == std::string::npos &&
        name.find('\0') == std::string::npos)
      names.push_back(name);
  }
  return names;
}

json suite_row_view(const fs::path& run) {
  json row{{"name", run.filename().string()},
           {"state", "not begun"},
           {"before_us", nullptr},
           {"after_us", nullptr},
           {"evaluations", 0},
           {"promotions", 0},
           {"elapsed_s", 0.0},
           {"best", nullptr},
           {"trouble", ""}};
  if (!is_run(run)) return row;
  try {
    const auto record = Record::open(run);
    if (!record) {
      row["trouble"] = plain_line(record.error().message, kWords);
      return row;
    }
    const Summary summary = summary_of(*record);
    row.update({{"state", summary.state},
                {"task", summary.task},
                {"target", summary.target},
                {"workloads", record->facts().workloads.size()},
                {"evaluations", summary.evaluations},
                {"promotions", summary.promotions},
                {"elapsed_s", summary.elapsed_s}});
    if (summary.best) add_best(row, *record, *summary.best);
  } catch (const std::exception& error) {  // one damaged record does not hide the others
    row["trouble"] = plain_line(error.what(), kWords);
  }
  return row;
}

}  // namespace cultivar
