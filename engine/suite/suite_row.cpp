// SPDX-License-Identifier: Apache-2.0
#include "engine/suite/suite_row.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/export/tables.hpp"
#include "engine/store/recorded_run.hpp"
#include "engine/store/schema.hpp"
#include "engine/store/standings.hpp"
#include "engine/store/summary.hpp"
#include "evaluators/system/plain_text.hpp"
#include "evaluators/timing/roofline.hpp"

namespace cultivar {
namespace fs = std::filesystem;
using nlohmann::json;
namespace {

class Ratios {
 public:
  void add(double ratio, const std::string& workload) {
    if (!(ratio > 0.0)) return;
    logs_ += std::log(ratio);
    if (count_ == 0 || ratio < ratios_.lowest) ratios_.lowest = ratio, ratios_.lowest_on = workload;
    ratios_.highest = std::max(ratios_.highest, ratio);
    ratios_.mean = std::exp(logs_ / ++count_);
  }
  const SuiteRatios& all() const { return ratios_; }

 private:
  double logs_ = 0.0;
  int count_ = 0;
  SuiteRatios ratios_;
};

void add_rivals(SuiteBest& best) {
  std::map<std::string, Ratios> rivals;
  for (const WorkloadResult& w : best.evaluation.workloads)
    for (const auto& [name, ratio] : w.ratios) rivals[name].add(ratio, w.workload);
  for (const auto& [name, ratios] : rivals) {
    SuiteRival rival{name, ratios.all()};
    Ratios lower, upper;
    bool all = true;
    for (const WorkloadResult& w : best.evaluation.workloads) {
      const auto interval = w.ratio_intervals.find(name);
      all = all && interval != w.ratio_intervals.end() && interval->second.lower > 0.0;
      if (!all) break;
      lower.add(interval->second.lower, w.workload);
      upper.add(interval->second.upper, w.workload);
    }
    if (all) rival.lower = lower.all().mean, rival.upper = upper.all().mean;
    for (const Exactness& e : best.evaluation.exactness)
      if (const auto theirs = e.contenders.find(name);
          theirs != e.contenders.end() && theirs->second.rms > 0.0)
        rival.error = std::max(rival.error.value_or(0.0), e.error.rms / theirs->second.rms);
    best.rivals.push_back(std::move(rival));
  }
  if (const auto beside = beside_best_contenders(best.evaluation))
    best.best_rival = {beside->mean, beside->lowest, beside->highest, beside->lowest_on};
  for (const Exactness& e : best.evaluation.exactness)
    best.error = std::max(best.error.value_or(0.0), e.error.rms);
}

// Of the time that the traffic or the arithmetic alone would take at the measured peaks. On a GPU the caches
// are cold, and a search on the host knows the rates at which cold data moves.
void add_share(SuiteBest& best, const SuiteTask& task, const json& environment) {
  const json& devices = environment.at("devices");
  if (devices.empty()) return;
  const Ceilings ceilings = ceilings_in(devices.front());
  const bool on_host = task.config.target->on_host;
  const Facts facts = on_host ? facts_in(environment) : Facts();
  Ratios shares;
  double traffic = 0.0, arithmetic = 0.0;
  for (const WorkloadResult& result : best.evaluation.workloads)
    for (const Workload& w : task.config.task->workloads(task.config.workloads)->workloads) {
      if (w.name != result.workload) continue;
      const Roofline floor = on_host
                                 ? timed_roofline(*task.config.task, w, ceilings, facts, task.config.target)
                                 : roofline(*task.config.task, w, ceilings, facts);
      traffic += floor.bytes_seconds;
      arithmetic += floor.flops_seconds;
      shares.add(floor.floor_seconds() * 1e6 / result.median_us, w.name);
    }
  best.share = shares.all();
  if (best.share.mean > 0.0)
    best.peak = traffic >= arithmetic ? "copy" : on_host ? "arithmetic peak" : "matrix peak";
}

double best_seed(const Record& record, Standings& standings) {
  double best = 0.0;
  record.each_individual([&](const IndividualRow& row) {
    if (row.individual.descent.origin == Origin::seed && row.state == IndividualState::measured)
      best = std::max(best, standings.fitness(row.individual.id));
  });
  return best;
}

SuiteBest best_of(const Record& record, const Best& said, const SuiteTask& task,
                  const fs::path& installed_tasks) {
  SuiteBest best;
  best.id = said.id;
  best.fitness = best.searched = said.fitness;
  best.unit = said.unit;
  const auto confirmed = record.confirmation(said.id), searched = record.evaluation(said.id);
  best.confirmed = confirmed && confirmed->measured();
  if (best.confirmed)
    best.evaluation = *confirmed;
  else if (searched)
    best.evaluation = *searched;
  if (best.confirmed && best.evaluation.fitness > 0.0) best.fitness = best.evaluation.fitness;
  Standings standings(record);
  if (const double seed = best_seed(record, standings); seed > 0.0) best.over_best_seed = said.fitness / seed;
  best.lineage = record.paced_lineage(said.id);
  if (!best.lineage.empty()) {
    const Individual& last = best.lineage.back().individual;
    best.made_by = origin_name(last.descent);
    const Individual& introduced = source_row(best.lineage).individual;
    best.source_by = origin_name(introduced.descent);
    best.model = introduced.descent.model;
    const Individual& first = best.lineage.front().individual;
    best.seed = first.descent.note;
    best.installed_seed =
        first.descent.origin == Origin::seed && is_installed_seed(record, first, installed_tasks);
  }
  add_rivals(best);
  add_share(best, task, record.facts().environment);
  return best;
}

// Why no kernel became the best.
std::string lack_of(const Record& record, const Summary& summary) {
  if (summary.evaluations == 0) return "the budget ended before the first kernel was evaluated: give it more";
  std::string reason;
  record.each_individual([&](const IndividualRow& row) {
    if (!reason.empty()) return;
    if (const auto confirmation = row.expelled ? record.confirmation(row.individual.id) : std::nullopt)
      reason = fmt::format("#{} failed its confirmation at {}: {}", row.individual.id,
                           name_of(confirmation->stage), confirmation->reason);
    else if (summary.measured == 0 && row.state == IndividualState::rejected)
      reason = fmt::format("no kernel passed every check; #{} was rejected at {}: {}", row.individual.id,
                           row.stage, row.reason);
  });
  return reason.empty()
             ? "the budget ended before the first kernel was confirmed in a fresh process: give it more"
             : reason;
}

void read(SuiteRow& row, const SuiteTask& task, const fs::path& folder, const fs::path& installed_tasks) {
  const auto record = Record::open(folder);
  if (!record) {
    if (row.trouble.empty()) row.trouble = record.error().text();
    return;
  }
  const Summary summary = summary_of(*record);
  row.state = summary.state;
  row.elapsed_s = summary.elapsed_s;
  row.evaluations = summary.evaluations;
  row.measured = summary.measured;
  row.promotions = summary.promotions;
  row.devices = summary.devices;
  if (summary.best)
    row.best = best_of(*record, *summary.best, task, installed_tasks);
  else if (row.trouble.empty() && summary.state == "finished")
    row.trouble = lack_of(*record, summary);
}

// As `--contender` takes it, for commands that run in `folder`.
std::string contender_argument(const Config& config, const fs::path& contender, const fs::path& folder) {
  if (!contender.is_absolute()) return contender.string();  // of the catalog
  if (contender.parent_path() == fs::absolute(config.task_folder).lexically_normal() / "contenders")
    return contender.stem().string();
  return contender.lexically_relative(folder).string();
}

void add_command(SuiteRow& row, const Config& config, const fs::path& run_folder) {
  const fs::path run = fs::absolute(run_folder).lexically_normal(), folder = run.parent_path();
  const fs::path task = fs::absolute(config.task_folder).lexically_normal().lexically_relative(folder);
  row.judged_again =
      fmt::format("cultivar evaluate {} {} --target {} --workloads {}", shell_word(task.string()),
                  shell_word("./" + run.filename().string() + ":best"), row.target, row.workloads);
  const auto add = [&](const fs::path& contender) {
    row.judged_again += " --contender " + shell_word(contender_argument(config, contender, folder));
  };
  for (const fs::path& source : config.contenders) add(fs::absolute(source).lexically_normal());
  for (const std::string& library : config.libraries) {
    add(library);
    row.contenders.push_back(fs::path(library).stem());
  }
  if (config.evaluation.python != EvaluationConfig().python)
    row.judged_again += " --python " + shell_word(config.evaluation.python);
}

}  // namespace

SuiteRow row_of(const SuiteTask& task, const fs::path& folder, const std::string& trouble,
                const fs::path& installed_tasks) {
  const Config& config = task.config;
  SuiteRow row;
  row.name = task.name;
  row.task = config.task->name;
  row.target = name_of(config.target);
  row.workloads = config.workloads;
  row.state = "not begun";
  row.trouble = trouble;
  row.budget_s = config.budget.wall_s;
  add_command(row, config, folder);
  std::error_code none;
  if (fs::exists(RunFolder(folder).database(), none)) try {
      read(row, task, folder, installed_tasks);
    } catch (const std::exception& error) {  // a damaged record
      row.trouble = error.what();
      row.best.reset();
    }
  return row;
}

std::string made_text(const SuiteBest& best) {
  if (!best.given())
    return fmt::format("written by {}{}, from seed {}{}", best.source_by,
                       best.model.empty() ? "" : " with " + best.model, best.seed,
                       best.made_by == best.source_by ? "" : ", values by " + best.made_by);
  const std::string source = best.source_by == "seed"
                                 ? (best.installed_seed ? "hand-written seed " : "seed ") + best.seed
                                 : std::string("submission");
  const bool as_given = best.made_by == "seed" || best.made_by == "submit";
  return source + (as_given ? ", as given" : ", values by " + best.made_by);
}

namespace {

json to_json(const SuiteRatios& ratios) {
  return {{"geometric_mean", ratios.mean},
          {"lowest", ratios.lowest},
          {"highest", ratios.highest},
          {"lowest_on", ratios.lowest_on}};
}

json to_json(const std::optional<double>& value) {
  return value ? json(*value) : json();
}

json to_json(const SuiteBest& best) {
  json rivals = json::object();
  for (const SuiteRival& rival : best.rivals) {
    rivals[rival.name] = to_json(rival.speed);
    rivals[rival.name]["error"] = to_json(rival.error);
    if (rival.lower > 0.0) rivals[rival.name]["interval"] = {rival.lower, rival.upper};
  }
  json workloads = json::array();
  for (const WorkloadResult& w : best.evaluation.workloads)
    workloads.push_back({{"name", w.workload},
                         {"median_us", w.median_us},
                         {"q1_us", w.q1_us},
                         {"q3_us", w.q3_us},
                         {"samples", w.samples.size()},
                         {"value", w.value},
                         {"ratios", w.ratios}});
  json share = to_json(best.share);
  share["of"] = best.peak;
  return {{"id", best.id},
          {"fitness", best.fitness},
          {"fitness_in_search", best.searched},
          {"unit", best.unit},
          {"confirmed", best.confirmed},
          {"over_best_seed", best.over_best_seed},
          {"hand_written", best.given()},
          {"made_by", best.made_by},
          {"source_by", best.source_by},
          {"model", best.model},
          {"seed", best.seed},
          {"lineage", lineage_json(best.lineage)},
          {"share", best.peak.empty() ? json() : share},
          {"rivals", rivals},
          {"best_rival", best.rivals.empty() ? json() : to_json(best.best_rival)},
          {"error", to_json(best.error)},
          {"exactness", best.evaluation.exactness},
          {"workloads", workloads}};
}

}  // namespace

json to_json(const SuiteRow& row) {
  return {{"name", row.name},
          {"task", row.task},
          {"target", row.target},
          {"workloads", row.workloads},
          {"state", row.state},
          {"trouble", row.trouble},
          {"elapsed_s", row.elapsed_s},
          {"budget_s", row.budget_s},
          {"evaluations", row.evaluations},
          {"measured", row.measured},
          {"promotions", row.promotions},
          {"devices", row.devices},
          {"judged_again", row.judged_again},
          {"best", row.best ? to_json(*row.best) : json()}};
}

}  // namespace cultivar
