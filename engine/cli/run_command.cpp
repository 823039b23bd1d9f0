#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>

#include "engine/cli/commands.hpp"
#include "engine/cli/detached_search.hpp"
#include "engine/cli/options.hpp"
#include "engine/cli/output.hpp"
#include "engine/cli/search_session.hpp"
#include "engine/cli/systemd_unit.hpp"
#include "engine/cli/trouble.hpp"
#include "engine/cli/workbench.hpp"
#include "evaluators/contenders/catalogue.hpp"
#include "evaluators/judge/stages.hpp"
#include "evaluators/system/plain_text.hpp"
#include "evaluators/system/process.hpp"
#include "evaluators/yaml/strict_yaml.hpp"
#include "operators/llm/replay.hpp"
#include "operators/registry.hpp"

namespace cultivar {
namespace fs = std::filesystem;
namespace {

// Checks a configuration without running anything: every seed must claim the workloads, and its plans must be
// legal on them and on their check shapes. For target cuda, the facts of an H100 are used, whatever GPU is
// installed.
void check_sources(const Config& config, const Output& output) {
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
  output.facts({{"name", config.name},
                {"task", task.name},
                {"target", name_of(config.target)},
                {"workloads", workloads.size()},
                {"seeds", seeds}});
  output.line(fmt::format("The configuration is valid. To check that this machine can run it: {} doctor",
                          called_as()));
}

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

// Programs and libraries that the configuration names must exist on this machine. Not checked when the
// configuration is read, because a record can be read on any machine.
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
  if (!config.evaluation.launcher.empty())
    need({"evaluation", "launcher"}, config.evaluation.launcher.front());
  for (const ModelConfig& model : config.models)
    if (!model.file.empty()) {
      if (const auto recorded = read_exchanges(model.file); !recorded)
        throw InputError(
            fmt::format("{}: {}", place_of(from, {"models", model.name, "file"}), recorded.error().message));
    } else if (!model.command.empty())
      need({"models", model.name, "command"}, model.command.front());
}

}  // namespace

int run_command(const Arguments& arguments) {
  std::string file, run_dir;
  std::vector<std::string> overrides;
  bool check = false, print_systemd = false;
  SessionOptions session;
  Options options(
      "run",
      "Starts a search. Ctrl-C writes a checkpoint and stops; `cultivar resume` resumes. When the budget is "
      "exhausted, the best kernel is exported to RUN/best.",
      "cultivar run configs/quickstart.yaml --set budget.wall=10m");
  options.argument("CONFIG", file,
                   "the search's configuration (configs/README.md), or an installed one's name");
  options.option("--run-dir", run_dir, "the folder for the record (default: runs/ and the search's name)");
  options.each("--set", overrides, "a.b=c: replace one value of the configuration");
  options.flag("--check", check,
               "only check the configuration, its task and its seeds; run and write nothing");
  options.flag("--print-systemd", print_systemd,
               "only print a systemd user unit that runs this search and resumes it after a restart");
  session.add_to(options);
  if (const auto code = options.parse(arguments)) return *code;
  if (run_dir.empty() && std::ranges::any_of(arguments, [](const std::string& word) {
        return word == "--run-dir" || word == "--run-dir=";
      }))
    throw InputError("--run-dir is empty; name a folder, or omit the option");

  const Output output(session.as_json);
  const InstallationPaths installation = find_installation();
  const fs::path found = find_configuration(installation, file);
  if (found != fs::path(file)) notify("{} is not in the current folder; using {}\n", file, found.string());
  const Config config = load_config(found, overrides, installation_of(installation));
  check_programs(config, installation, found);
  if (check) {
    check_sources(config, output);
    return 0;
  }
  const fs::path folder = fs::absolute(run_dir.empty() ? fs::path("runs") / config.name : fs::path(run_dir));
  if (print_systemd) {
    SystemdUnit unit{config.name,         fs::read_symlink("/proc/self/exe"),
                     fs::current_path(),  folder,
                     fs::absolute(found), overrides};
    if (const char* path = std::getenv("PATH")) unit.path = path;
    for (const ModelConfig& model : config.models)
      if (!model.api_key_env.empty()) unit.keys.push_back(model.api_key_env);
    std::fputs(text_of(unit).c_str(), stdout);
    return 0;
  }
  if (fs::exists(folder / "run.db"))
    throw InputError(
        fmt::format("{0} already holds a search. To resume it:  {2} resume {0}\n"
                    "To start another one:  {2} run {1} --run-dir {0}-2",
                    as_typed(folder), shell_word(file), called_as()));
  std::error_code none;
  if (fs::exists(folder, none) && !(fs::is_directory(folder, none) && RunFolder(folder).is_unused()))
    throw InputError(
        fmt::format("{} is not empty and not a run: name a new folder with --run-dir", as_typed(folder)));
  if (session.detach) {
    std::vector<std::string> again{"run", fs::absolute(found).string(), "--run-dir", folder.string()};
    for (const std::string& each : overrides) again.insert(again.end(), {"--set", each});
    std::ranges::copy(session.again(), std::back_inserter(again));
    return start_detached(std::move(again), RunFolder(folder), output);
  }
  session.open_log();
  const auto announce = [&] {
    notify("Searching: {}\n  task {}, target {}, workloads {}, {} seed{}\n  record {}\n", config.name,
           config.task_folder.filename().string(), name_of(config.target), config.workloads,
           config.seeds.size(), config.seeds.size() == 1 ? "" : "s", as_typed(folder));
  };
  // Whether the GPU works is only known after the first event, so nothing about it is printed before.
  bool announced = config.target->on_host;
  if (announced) announce();
  return search_session(installation, folder, output, session,
                        [&](const Runtime& runtime, const SearchCallbacks& callbacks) {
                          SearchCallbacks told = callbacks;
                          told.event = [&](const Event& event) {
                            if (!std::exchange(announced, true)) announce();
                            if (callbacks.event) callbacks.event(event);
                          };
                          return begin_search(config, folder, runtime, told, interrupted());
                        });
}

}  // namespace cultivar
