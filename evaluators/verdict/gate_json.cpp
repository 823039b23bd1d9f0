// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "evaluators/system/json_fields.hpp"
#include "evaluators/verdict/gate.hpp"

namespace cultivar {

namespace {

// JSON has no infinity: an absent bound is stored as null.
double bound_from(const nlohmann::json& json, double absent) {
  return json.is_null() ? absent : json.get<double>();
}

constexpr double infinity = std::numeric_limits<double>::infinity();

}  // namespace

void to_json(nlohmann::json& json, const Decision& decision) {
  nlohmann::json workloads = nlohmann::json::array();
  for (const WorkloadRatio& w : decision.workloads)
    workloads.push_back(
        {{"name", w.workload}, {"log_ratio", w.log_ratio}, {"lower", w.lower}, {"upper", w.upper}});
  json = {{"verdict", name_of(decision.verdict)},
          {"reason", decision.reason},
          {"log_ratio", decision.log_ratio},
          {"lower", decision.lower},
          {"upper", decision.upper},
          {"blocks", decision.blocks},
          {"batches", decision.batches},
          {"runs", decision.runs},
          {"device_seconds", decision.device_seconds},
          {"control_drift", decision.control_drift},
          {"workloads", std::move(workloads)}};
  // Also in memory, so that a value and its JSON text agree.
  const auto absent_to_null = [](nlohmann::json& object) {
    for (const char* key : {"lower", "upper"})
      if (!std::isfinite(object.at(key).get<double>())) object[key] = nullptr;
  };
  absent_to_null(json);
  for (nlohmann::json& workload : json["workloads"]) absent_to_null(workload);
}

void from_json(const nlohmann::json& json, Decision& decision) {
  const auto verdict = verdict_named(json.at("verdict").get_ref<const std::string&>());
  if (!verdict)
    throw nlohmann::json::other_error::create(501, "unknown verdict " + json.at("verdict").dump(), &json);
  decision.verdict = *verdict;
  json.at("reason").get_to(decision.reason);
  json.at("log_ratio").get_to(decision.log_ratio);
  decision.lower = bound_from(json.at("lower"), -infinity);
  decision.upper = bound_from(json.at("upper"), infinity);
  json.at("blocks").get_to(decision.blocks);
  decision.batches = json.value("batches", 0);  // absent in records of earlier versions
  decision.runs = json.value("runs", std::int64_t{0});
  json.at("device_seconds").get_to(decision.device_seconds);
  json.at("control_drift").get_to(decision.control_drift);
  decision.workloads.clear();
  for (const nlohmann::json& w : json.at("workloads"))
    decision.workloads.push_back({w.at("name").get<std::string>(), w.at("log_ratio").get<double>(),
                                  bound_from(w.at("lower"), -infinity), bound_from(w.at("upper"), infinity)});
}

CULTIVAR_JSON(GateOptions, min_gain, max_workload_loss, alpha, futility, guard, min_blocks, max_blocks,
              max_device_seconds)

void to_json(nlohmann::json& json, const DuelTimes& times) {
  nlohmann::json pilots = nlohmann::json::array(), blocks = nlohmann::json::array();
  for (const Pilot& p : times.pilots)
    pilots.push_back({p.challenger_seconds, p.incumbent_seconds, p.challenger_cost, p.incumbent_cost});
  for (const DuelTimes::Block& block : times.blocks) blocks.push_back({block.device_seconds, block.seconds});
  json = {{"pilots", std::move(pilots)}, {"blocks", std::move(blocks)}};
}

void from_json(const nlohmann::json& json, DuelTimes& times) {
  times = {};
  for (const nlohmann::json& p : json.at("pilots"))
    times.pilots.push_back(
        {p.at(0).get<double>(), p.at(1).get<double>(), p.at(2).get<double>(), p.at(3).get<double>()});
  for (const nlohmann::json& block : json.at("blocks"))
    times.blocks.push_back({block.at(1).get<std::vector<double>>(), block.at(0).get<double>()});
}

}  // namespace cultivar
