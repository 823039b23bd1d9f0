// SPDX-License-Identifier: Apache-2.0
#include "engine/store/recorded_run.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <optional>
#include <set>

#include "engine/config/asking_settings.hpp"
#include "evaluators/references/task_files.hpp"
#include "evaluators/system/files.hpp"

namespace cultivar {

namespace fs = std::filesystem;
using nlohmann::json;

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

namespace {

// Two sources with the same name from different folders get different names.
std::string free_name(const json& files, const std::string& folder, const fs::path& file) {
  std::string name = folder + "/" + file.filename().string();
  for (int i = 2; files.contains(name); ++i)
    name = folder + "/" + file.stem().string() + "-" + std::to_string(i) + file.extension().string();
  return name;
}

}  // namespace

Expected<Config> take_snapshot(const Config& config, const LoadedSources& loaded, const RunFolder& folder,
                               json& files) {
  constexpr std::size_t kLargest = 1 << 20;  // a task is text; larger data files are not copied
  files = json::object();
  const auto read = [&](const std::string& name) -> std::optional<std::string> {
    std::error_code none;
    const fs::path file = config.task_folder / name;
    if (!fs::is_regular_file(file, none)) return std::nullopt;
    auto text = read_file(file, kLargest);
    return text ? std::optional(std::move(*text)) : std::nullopt;
  };
  // Nothing else that lies there: a configuration beside task.yaml may hold addresses that are nobody's
  // business.
  std::set<std::string> names = files_of_reference(config.task->reference.filename(), read);
  names.merge(files_of_pytorch(read));
  names.insert("task.yaml");
  names.insert(kModelNew);
  for (const std::string& name : names)
    if (const auto text = read(name)) files[name] = *text;
  if (!files.contains("task.yaml"))
    return failure("read task", fmt::format("{} cannot be read, or is larger than 1 MiB",
                                            (config.task_folder / "task.yaml").string()));

  Config relative = config;
  const std::string& task_name = config.task->name;
  const fs::path task = fs::path("task") / task_name;
  relative.task_folder = task;
  const auto copy = [&](const char* below, std::vector<fs::path>& paths, const auto& variants) {
    for (std::size_t i = 0; i < paths.size(); ++i) {
      const std::string name = free_name(files, below, paths[i]);
      files[name] = variants.at(i)->source;  // including its headers, as one text
      paths[i] = task / name;
    }
  };
  copy("seeds", relative.seeds, loaded.seeds);
  copy("contenders", relative.contenders, loaded.contenders);
  if (!config.models.empty()) {  // the prompts and notes as they are now, so that later changes to them do
                                 // not affect this run
    const PromptKit kit = prompt_kit(config.asking);
    for (const auto& [name, text] : kit.texts()) files["prompts/" + name] = text;
    relative.asking.templates = task / "prompts";
    relative.asking.knowledge.clear();
    for (const fs::path& notes : config.asking.knowledge) {
      std::error_code ec;
      for (const auto& entry : fs::directory_iterator(notes, ec))
        if (entry.path().extension() == ".md" && entry.path().filename() != "README.md")
          files["knowledge/" + entry.path().filename().string()] = read_file(entry.path()).value_or("");
      relative.asking.knowledge = {task / "knowledge"};
    }
  }
  auto written = restore_snapshot(files, task_name, folder);
  if (!written) return tl::make_unexpected(written.error());
  return relative;
}

Expected<void> restore_snapshot(const json& files, const std::string& task_name, const RunFolder& folder) {
  for (const auto& [name, text] : files.items()) {
    const fs::path file = folder.tasks() / task_name / name;
    std::error_code ec;
    fs::create_directories(file.parent_path(), ec);
    if (ec) return failure("write task", file.parent_path().string() + ": " + ec.message());
    if (fs::exists(file, ec) && read_file(file).value_or("") == text.get<std::string>()) continue;
    if (auto written = write_atomically(file, text.get<std::string>()); !written) return written;
  }
  return {};
}

}  // namespace cultivar
