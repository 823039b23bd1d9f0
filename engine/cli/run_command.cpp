// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "engine/cli/commands.hpp"
#include "engine/cli/config_checks.hpp"
#include "engine/cli/detached_search.hpp"
#include "engine/cli/options.hpp"
#include "engine/cli/output.hpp"
#include "engine/cli/search_session.hpp"
#include "engine/store/summary.hpp"
#include "evaluators/system/plain_text.hpp"

namespace cultivar {
namespace fs = std::filesystem;
namespace {

std::string task_name_of(const fs::path& folder) {  // of ".", too
  const fs::path whole = fs::absolute(folder / "").lexically_normal();
  return whole.parent_path().filename().string();
}

bool is_endless(const Budget& b) {
  return b.wall_s == 0.0 && b.evaluations == 0 && b.device_s == 0.0 && b.plateau_s == 0.0 && !b.models.usd &&
         !b.models.tokens;
}

// Empty if a budget ends the search.
std::string endless_words(const Budget& budget) {
  if (!is_endless(budget)) return "";
  return fmt::format(
      "no budget: it goes on until it is stopped (Ctrl-C, `{} stop`); --set budget.wall=2h would end it",
      called_as());
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
  options.flag(
      "--check", check,
      "only check the configuration, its task, its seeds and its launcher, with which the workers are "
      "started; search and write nothing");
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
  check_choices(config, {found});
  check_programs(config, installation, {found});
  check_memory(config, {found});
  for (const std::string& limit : limit_warnings()) notify("Warning: {}.\n", limit);
  ContenderTrials trials(installation);
  if (!print_systemd)
    for (const ContenderWarning& warning : contender_warnings(config, installation, {found}, trials))
      notify("Warning: {}: {}\n", warning.place, warning.text);
  if (check) {
    const std::vector<WorkersOf> workers = check_launchers(config, installation, {found}, output);
    nlohmann::json facts = check_sources(config, output);
    if (!workers.empty()) facts["workers"] = workers;
    facts["endless"] = is_endless(config.budget);
    if (const std::string endless = endless_words(config.budget); !endless.empty())
      output.line("  " + endless);
    output.facts(facts);
    output.line(fmt::format("The configuration is valid. To check that this machine can run it: {} doctor",
                            called_as()));
    return 0;
  }
  const fs::path folder = fs::absolute(run_dir.empty() ? fs::path("runs") / config.name : fs::path(run_dir));
  if (print_systemd) {
    SystemdUnit unit{config.name,         fs::read_symlink("/proc/self/exe"),
                     fs::current_path(),  folder,
                     fs::absolute(found), overrides};
    if (const char* path = std::getenv("PATH")) unit.path = path;
    unit.cache = installation.cache;  // the same as here, whatever the environment of systemd is
    const auto add_key = [&](const std::string& name) {
      if (!name.empty() && std::ranges::find(unit.keys, name) == unit.keys.end()) unit.keys.push_back(name);
    };
    for (const ModelConfig& model : config.models) add_key(model.api_key_env);
    for (const NotifyChannel& channel : config.notify) add_key(channel.webhook_env);
    std::fputs(text_of(unit).c_str(), stdout);
    return 0;
  }
  if (fs::exists(folder / "run.db"))
    throw InputError(
        fmt::format("{0} already holds a search. To resume it:\n  {2} resume {0}\n"
                    "To start another one:\n  {2} run {1} --run-dir {0}-2",
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
           task_name_of(config.task_folder), name_of(config.target), config.workloads, config.seeds.size(),
           config.seeds.size() == 1 ? "" : "s", as_typed(folder));
    if (const std::string endless = endless_words(config.budget); !endless.empty()) notify("  {}\n", endless);
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
