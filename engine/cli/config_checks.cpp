// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/config_checks.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <future>
#include <thread>

#include "engine/cli/workbench.hpp"
#include "engine/search/evaluations.hpp"
#include "evaluators/contenders/catalogue.hpp"
#include "evaluators/judge/memory_need.hpp"
#include "evaluators/judge/stages.hpp"
#include "evaluators/system/clock.hpp"
#include "evaluators/system/error.hpp"
#include "evaluators/system/memory_limit.hpp"
#include "evaluators/system/plain_text.hpp"
#include "evaluators/system/process.hpp"
#include "evaluators/worker/link.hpp"
#include "evaluators/worker/services.hpp"
#include "evaluators/yaml/nearest_name.hpp"
#include "evaluators/yaml/strict_yaml.hpp"
#include "operators/llm/replay.hpp"
#include "operators/registry.hpp"

namespace cultivar {

namespace fs = std::filesystem;

namespace {

// The value at these keys; numbers are positions in lists.
std::optional<YamlNode> find_node(YamlNode node, const std::vector<std::string>& keys) {
  for (const std::string& key : keys) {
    std::optional<YamlNode> next;
    if (node.is_map())
      for (const auto& [name, value] : node.map().entries())
        if (name == key) next = value;
    if (node.is_sequence())
      if (const auto items = node.items(); std::stoul(key) < items.size()) next = items[std::stoul(key)];
    if (!next) return std::nullopt;
    node = *next;
  }
  return node;
}

}  // namespace

std::string place_of(const ConfigPlace& from, const std::vector<std::string>& keys, const std::string& item) {
  const std::string dotted = fmt::format("{}", fmt::join(keys, "."));
  std::vector<std::vector<std::string>> above{{}};
  if (from.task) above = {{"tasks", std::to_string(*from.task)}, {"common"}};
  const YamlNode whole = read_yaml(from.file);
  for (std::vector<std::string>& path : above) {
    const std::string head = path.empty()       ? ""
                             : path.size() == 1 ? path.front() + "."
                                                : fmt::format("tasks[{}].", *from.task);
    path.insert(path.end(), keys.begin(), keys.end());
    const auto node = find_node(whole, path);
    if (!node) continue;
    int line = node->line();
    if (!item.empty() && node->is_sequence())
      for (const YamlNode& each : node->items())
        if (each.is_scalar() && item.ends_with(each.string())) line = each.line();
    return fmt::format("{}:{}: {}{}", from.file.string(), line, head, dotted);
  }
  return fmt::format("{}: {}{}", from.file.string(), from.task ? fmt::format("tasks[{}].", *from.task) : "",
                     dotted);
}

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
    if (const auto illegal = illegal_on_check_shapes(task, seed, facts))
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
  for (const NotifyChannel& channel : config.notify)
    if (const char* url = channel.webhook_env.empty() ? "" : std::getenv(channel.webhook_env.c_str());
        url == nullptr)
      output.line(
          fmt::format("  notify: {} is not set in this environment; without it, nothing is delivered by "
                      "{}: set it before the search begins",
                      channel.webhook_env, channel.name()));
  const auto asks = [](const OperatorShare& share) { return operator_named(share.name).asks(); };
  if (!config.models.empty() && std::ranges::none_of(config.operators, asks))
    output.line("  models: not used, because no configured operator asks a language model");
  return {{"name", config.name},
          {"task", task.name},
          {"target", name_of(config.target)},
          {"workloads", workloads.size()},
          {"seeds", seeds}};
}

void check_choices(const Config& config, const ConfigPlace& from) {
  const auto configured = [&](const auto& wanted) {
    return std::ranges::any_of(
        config.operators, [&](const OperatorShare& share) { return wanted(operator_named(share.name)); });
  };
  if (configured([](const OperatorRow& row) { return row.name == "plan"; }) &&
      !configured([](const OperatorRow& row) { return row.follows; }))
    throw InputError(
        fmt::format("{}: only mutate and agent follow its strategies, and the configuration has neither; add "
                    "one of them, for example `mutate: 1`, or remove `plan`",
                    place_of(from, {"operators", "plan"})));
  if (config.population.strategy != StrategyKind::map_elites) return;
  std::vector<std::string> known = descriptor_names(config.target);
  known.emplace_back("family");
  for (const fs::path& file : config.seeds)
    for (const Tunable& tunable : load_variant(file, *config.task, config.target).manifest.tunables)
      if (std::ranges::find(known, tunable.name) == known.end()) known.push_back(tunable.name);
  for (std::size_t i = 0; i < config.population.axes.size(); ++i)
    if (const std::string& axis = config.population.axes[i]; std::ranges::find(known, axis) == known.end())
      throw InputError(fmt::format(
          "{}: no kernel has '{}'{}; name a descriptor, `family`, or a tunable of a seed: to divide kernels "
          "by a trait of your own, declare it in each seed as a tunable with one value",
          place_of(from, {"population", "axes", std::to_string(i)}), axis, did_you_mean(axis, known)));
}

void check_programs(const Config& config, const InstallationPaths& installation, const ConfigPlace& from) {
  for (const std::string& library : config.libraries) {
    const std::string place = place_of(from, {"contenders"}, library);
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
  for (std::size_t i = 0; i < config.notify.size(); ++i)
    if (!config.notify[i].command.empty())
      need({"notify", std::to_string(i), "command"}, config.notify[i].command.front());
}

std::vector<ContenderWarning> contender_warnings(const Config& config, const InstallationPaths& installation,
                                                 const ConfigPlace& from, ContenderTrials& trials) {
  std::vector<ContenderWarning> warnings;
  if (!config.evaluation.launcher.empty()) return warnings;
  for (const std::string& library : config.libraries) {
    const StepLine line("looking for the contender " + library);
    const std::string trouble = trials.trouble(
        config.task_folder, config.target, find_contender_library(library, "/", installation.programs, {}),
        config.evaluation.python);
    if (!trouble.empty())
      warnings.push_back({place_of(from, {"contenders"}, library),
                          fmt::format("the contender {} cannot be used: {}", library, trouble)});
  }
  return warnings;
}

namespace {

constexpr double kPatience = 60.0;  // for a launcher to start a worker

[[noreturn]] void no_worker(const ServiceOptions& options, const ConfigPlace& from, const char* role,
                            const std::string& command, const Error& why, Clock::time_point start) {
  throw InputError(
      fmt::format("{}: `{}` started no {} worker; the attempt ended after {:.1f} s.\n{}\nRun `{} true` by "
                  "hand: if it waits, the scheduler has no free resources for it; if it works, check that {} "
                  "exists at this path there",
                  place_of(from, {"evaluation", "launcher"}), command, role, seconds_since(start),
                  why.message, command, (options.programs / worker_program(options.target)).string()));
}

// Starts all workers that the search would have, at the same time. Returns how many are on which device.
std::vector<WorkersOf> measuring_workers(const ServiceOptions& options, const EvaluationConfig& evaluation,
                                         const ConfigPlace& from, const std::string& command,
                                         const Output& output) {
  const Clock::time_point start = Clock::now();
  std::vector<std::future<Expected<DeviceInfo>>> asked;
  for (int more = 0; more < evaluation.workers_per_device; ++more)
    for (const int device : evaluation.devices) {
      ServiceOptions own = options;
      own.device = device;
      asked.push_back(std::async(std::launch::async, [own] { return DeviceService(own).info(); }));
    }
  std::vector<DeviceInfo> kinds;
  std::vector<WorkersOf> pools;
  std::optional<Error> trouble;
  for (auto& answer : asked) {
    const auto info = answer.get();
    if (!info) {
      if (!trouble) trouble = info.error();
      continue;
    }
    const auto kind = std::ranges::find_if(kinds, [&](const DeviceInfo& k) { return k.same_kind(*info); });
    if (kind != kinds.end()) {
      ++pools[static_cast<std::size_t>(kind - kinds.begin())].workers;
      continue;
    }
    kinds.push_back(*info);
    pools.push_back({info->description, 1, pools.empty()});
  }
  if (pools.empty()) no_worker(options, from, "measure", command, *trouble, start);
  for (const WorkersOf& pool : pools)
    output.line(fmt::format("  {} of {} measure workers: on {}", pool.workers, asked.size(), pool.device));
  if (trouble)
    output.line("  others did not start; they would join the search later: " +
                plain_line(trouble->message, 300));
  if (pools.size() > 1)
    output.line(
        "  These are several kinds of devices, and a search uses only that of its first worker, since times "
        "on different devices cannot be compared. Let the launcher ask for one kind, for example with "
        "--constraint");
  return pools;
}

}  // namespace

std::vector<WorkersOf> check_launchers(const Config& config, const InstallationPaths& installation,
                                       const ConfigPlace& from, const Output& output) {
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
  std::vector<WorkersOf> pools;
  for (const char* role : {"measure", "compile"}) {
    const bool measures = role == std::string_view("measure");
    const std::vector<std::string>& launcher = measures ? options.launcher : options.compile_launcher;
    if (launcher.empty()) continue;
    const std::string command = shell_words(launcher);
    output.line(fmt::format("  launcher of {} workers: starting {} with `{}`, for at most {:g} s", role,
                            measures ? "them" : "one", command, kPatience));
    if (measures) {
      pools = measuring_workers(options, config.evaluation, from, command, output);
      continue;
    }
    const Clock::time_point start = Clock::now();
    const auto greeted = WorkerLink(options, role).greet();
    if (!greeted) no_worker(options, from, role, command, greeted.error().error, start);
    output.line(fmt::format("  launcher of {} workers: the worker answered after {:.1f} s", role,
                            seconds_since(start)));
  }
  return pools;
}

std::vector<std::string> limit_warnings() {
  std::vector<std::string> warnings;
  for (const TightLimit& limit : tight_limits()) {
    if (limit.fatal) throw InputError(limit.text);
    warnings.push_back(limit.text);
  }
  return warnings;
}

void require_limits() {
  (void)limit_warnings();
}

void check_memory(const Task& task, const std::vector<Workload>& workloads, Target target) {
  if (const auto why = beyond_memory(task, workloads, target)) throw InputError(*why);
}

void check_memory(const Config& config, const ConfigPlace& from) {
  if (!config.evaluation.launcher.empty()) return;
  for (const auto& [key, set] : {std::pair{"workloads", &config.workloads}, {"holdout", &config.holdout}})
    if (const WorkloadSet* const named = set->empty() ? nullptr : config.task->workloads(*set))
      if (const auto why = beyond_memory(*config.task, named->workloads, config.target))
        throw InputError(place_of(from, {key}) + ": " + *why);
}

}  // namespace cultivar
