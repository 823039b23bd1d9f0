// SPDX-License-Identifier: Apache-2.0
#include "engine/store/recorded_run.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

namespace cultivar {

Facts facts_in(const nlohmann::json& environment) {
  Facts facts;
  const nlohmann::json& devices = environment.at("devices");
  if (devices.empty()) return facts;
  for (const auto& [name, value] : devices.front().at("facts").items()) facts[name] = value.get<double>();
  return facts;
}

Ceilings ceilings_in(const nlohmann::json& device) {
  const auto known = device.value("ceilings", nlohmann::json::object());
  Ceilings ceilings;
  ceilings.flops = known.value("flops", 0.0);
  ceilings.bytes_per_second = known.value("bytes_per_second", 0.0);
  ceilings.cached_bytes_per_second = known.value("cached_bytes_per_second", 0.0);
  ceilings.handshake_s = known.value("handshake_s", 0.0);
  for (const auto& rate : known.value("cold", nlohmann::json::array()))
    ceilings.cold.push_back({rate.value("bytes", 0.0), rate.value("bytes_per_second", 0.0)});
  return ceilings;
}

nlohmann::json ceilings_json(const Ceilings& ceilings) {
  auto cold = nlohmann::json::array();
  for (const ColdRate& rate : ceilings.cold)
    cold.push_back({{"bytes", rate.bytes}, {"bytes_per_second", rate.bytes_per_second}});
  return {{"flops", ceilings.flops},
          {"bytes_per_second", ceilings.bytes_per_second},
          {"cached_bytes_per_second", ceilings.cached_bytes_per_second},
          {"handshake_s", ceilings.handshake_s},
          {"cold", cold}};
}

double roofline_in(const nlohmann::json& environment, const Config& config) {
  const nlohmann::json& devices = environment.at("devices");
  if (devices.empty() || !devices.front().contains("ceilings")) return 0.0;
  const Ceilings ceilings = ceilings_in(devices.front());
  const Facts facts = facts_in(environment);
  const Task& task = *config.task;
  double logs = 0.0;
  int workloads = 0;
  for (const Workload& workload : task.workloads(config.workloads)->workloads) {
    // On a GPU and in records without these rates as always: decisions that were made with it are repeated.
    const double floor =
        (ceilings.cold.empty() ? roofline(task, workload, ceilings, facts)
                               : timed_roofline(task, workload, ceilings, facts, config.target))
            .floor_seconds();
    if (!(floor > 0.0)) return 0.0;
    logs += std::log(rate_of(task, workload, config.target, floor));
    ++workloads;
  }
  return workloads > 0 ? std::exp(logs / workloads) : 0.0;
}

std::vector<BeyondMemory> beyond_memory_in(const nlohmann::json& environment, const Config& config,
                                           const Evaluation& evaluation) {
  const nlohmann::json devices = environment.value("devices", nlohmann::json::array());
  if (devices.empty() || !devices.front().contains("ceilings")) return {};
  return beyond_memory(*config.task, config.task->workloads(config.workloads)->workloads, evaluation,
                       ceilings_in(devices.front()), facts_in(environment), config.target);
}

namespace {

template <class Change>
void change_paths(Config& config, const Change& change) {
  change(config.task_folder);
  for (auto& seed : config.seeds) change(seed);
  for (auto& contender : config.contenders) change(contender);
  if (!config.asking.templates.empty()) change(config.asking.templates);
  for (auto& notes : config.asking.knowledge) change(notes);
}

}  // namespace

Config relative_to(const RunFolder& folder, Config config) {
  const auto base = std::filesystem::absolute(folder.path());
  change_paths(config, [&](std::filesystem::path& path) { path = path.lexically_relative(base); });
  return config;
}

Config absolute_in(const RunFolder& folder, Config config) {
  const auto base = std::filesystem::absolute(folder.path());
  change_paths(config, [&](std::filesystem::path& path) { path = (base / path).lexically_normal(); });
  Task task = *config.task;
  task.folder = config.task_folder;
  config.task = std::make_shared<const Task>(std::move(task));
  return config;
}

Config recorded_config(const std::string& yaml, const RunFolder& folder,
                       const std::vector<std::string>& overrides, const Installation& installation) {
  return parse_config(yaml, folder.database().string(), folder.path(), overrides, installation);
}

}  // namespace cultivar
