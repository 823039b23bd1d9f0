#include "engine/cli/config_checks.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>

#include "engine/cli/workbench.hpp"
#include "evaluators/contenders/catalogue.hpp"
#include "evaluators/judge/stages.hpp"
#include "evaluators/system/clock.hpp"
#include "evaluators/system/process.hpp"
#include "evaluators/worker/link.hpp"
#include "evaluators/yaml/strict_yaml.hpp"
#include "operators/llm/replay.hpp"
#include "operators/registry.hpp"

namespace cultivar {
namespace fs = std::filesystem;

nlohmann::json check_sources(const Config& config, const Output& output) {
  const Task& task = *config.task;
  const std::vector<Workload>& workloads = task.workloads(config.workloads)->workloads;
  const Facts facts = config.target->stand_in_facts(config.evaluation.cores);
  nlohmann::json seeds = nlohmann::json::array();
  for (const fs::path& file : config.contenders) load_variant(file, task, config.target);
  for (const fs::path& file : config.seeds) {
    const Variant seed = load_variant(file, task, config.target);
    for (const Workload& workload : workloads)
      if (!claims(seed, task, workload))
        throw InputError(
            fmt::format("{}: the seed does not claim workload {}, but every variant of a search must run "
                        "all of its workloads; choose another workload set or another seed",
                        file.string(), workload.name));
    if (const auto why = illegal_on(workloads, seed, task, facts))
      throw InputError(fmt::format("{}: {}", file.string(), why->text()));
    if (const auto illegal = illegal_on_check_shapes(task, seed, workloads, facts))
      throw InputError(fmt::format("{}: {}: {}", file.string(), illegal->reason, illegal->diagnostics));
    double choices = 1.0;
    for (const Tunable& tunable : seed.manifest.tunables)
      choices *= static_cast<double>(tunable.values.size());
    seeds.push_back({{"name", seed.manifest.name}, {"configurations", choices}});
    output.line(fmt::format("  seed {}: {:.0f} configurations", seed.manifest.name, choices));
  }
  for (const ModelConfig& model : config.models)
    if (const char* key = model.api_key_env.empty() ? "" : std::getenv(model.api_key_env.c_str());
        key == nullptr)
      output.line(
          fmt::format("  model {}: {} is not set in this environment", model.name, model.api_key_env));
  const auto asks = [](const OperatorShare& share) { return operator_named(share.name).asks(); };
  if (!config.models.empty() && std::ranges::none_of(config.operators, asks))
    output.line("  models: not used, because no configured operator asks a language model");
  return {{"name", config.name},
          {"task", task.name},
          {"target", name_of(config.target)},
          {"workloads", workloads.size()},
          {"seeds", seeds}};
}

namespace {

// "search.yaml:12: models.m.command": the position of a value in the file; without a line number when it was
// set with --set.
std::string place_of(const fs::path& file, const std::vector<std::string>& keys) {
  std::string dotted;
  for (const std::string& key : keys) dotted += (dotted.empty() ? "" : ".") + key;
  YamlNode node = read_yaml(file);
  for (const std::string& key : keys) {
    std::optional<YamlNode> next;
    if (node.is_map())
      for (const auto& [name, value] : node.map().entries())
        if (name == key) next = value;
    if (!next) return fmt::format("{}: {}", file.string(), dotted);
    node = *next;
  }
  return fmt::format("{}:{}: {}", file.string(), node.line(), dotted);
}

}  // namespace

void check_programs(const Config& config, const InstallationPaths& installation, const fs::path& from) {
  for (const std::string& library : config.libraries) {
    const std::string place = place_of(from, {"contenders"});
    for (const KnownContender& known : known_contenders(installation.programs)) {
      const std::string why = misfit(known, config.task_folder.filename(), name_of(config.target));
      if ((known.name == library || known.library == library) && !why.empty())
        throw InputError(fmt::format("{}: {}", place, why));
    }
    try {
      (void)find_contender_library(library, "/", installation.programs, {});
    } catch (const InputError& error) {
      throw InputError(place + ": " + error.what());
    }
  }
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  if (config.target->on_host && cores > 0 && config.evaluation.cores > cores)
    throw InputError(fmt::format("{}: this machine has {} core{}, but {} are requested",
                                 place_of(from, {"evaluation", "cores"}), cores, cores == 1 ? "" : "s",
                                 config.evaluation.cores));
  const auto need = [&](const std::vector<std::string>& keys, const std::string& program) {
    std::error_code ignored;
    if (find_program(program).empty() && !fs::is_regular_file(program, ignored))
      throw InputError(
          fmt::format("{}: there is no program '{}' on this machine; install it, or give its full path",
                      place_of(from, keys), program));
  };
  for (const auto* launcher : {&config.evaluation.launcher, &config.evaluation.compile_launcher})
    if (!launcher->empty()) need({"evaluation", "launcher"}, launcher->front());
  for (const ModelConfig& model : config.models)
    if (!model.file.empty()) {
      if (const auto recorded = read_exchanges(model.file); !recorded)
        throw InputError(
            fmt::format("{}: {}", place_of(from, {"models", model.name, "file"}), recorded.error().message));
    } else if (!model.command.empty())
      need({"models", model.name, "command"}, model.command.front());
}

void check_launchers(const Config& config, const InstallationPaths& installation, const fs::path& from,
                     const Output& output) {
  constexpr double kPatience = 60.0;
  ServiceOptions options;
  options.target = config.target;
  options.programs = installation.programs;
  options.task_folder = config.task_folder;
  options.cache = installation.cache;
  options.launcher = config.evaluation.launcher;
  options.compile_launcher = config.evaluation.compile_launcher;
  options.queue_deadline_s = kPatience;
  options.cores = config.evaluation.cores;
  options.device = config.evaluation.devices.front();
  for (const char* role : {"measure", "compile"}) {
    const bool measures = role == std::string_view("measure");
    const std::vector<std::string>& launcher = measures ? options.launcher : options.compile_launcher;
    if (launcher.empty()) continue;
    const std::string command = fmt::format("{}", fmt::join(launcher, " "));
    output.line(fmt::format("  launcher of {} workers: starting one with `{}`, for at most {:g} s", role,
                            command, kPatience));
    const Clock::time_point start = Clock::now();
    const auto greeted = WorkerLink(options, role).greet();
    if (!greeted)
      throw InputError(fmt::format(
          "{}: `{}` started no {} worker within {:g} s.\n{}\nRun `{} true` by hand: if it waits, the "
          "scheduler has no free resources for it; if it works, check that {} exists at this path there",
          place_of(from, {"evaluation", "launcher"}), command, role, kPatience, greeted.error().error.message,
          command, (installation.programs / worker_program(config.target)).string()));
    output.line(fmt::format("  launcher of {} workers: the worker answered after {:.1f} s", role,
                            seconds_since(start)));
  }
}

}  // namespace cultivar
