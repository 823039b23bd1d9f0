// SPDX-License-Identifier: Apache-2.0
#include "engine/config/config.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <cctype>

#include "engine/config/asking_settings.hpp"
#include "engine/config/duration.hpp"
#include "engine/config/model_settings.hpp"
#include "engine/config/population_settings.hpp"
#include "engine/config/settings.hpp"
#include "evaluators/contenders/catalogue.hpp"
#include "evaluators/judge/requests.hpp"
#include "evaluators/system/json_text.hpp"
#include "evaluators/system/plain_text.hpp"
#include "evaluators/worker/link.hpp"
#include "evaluators/yaml/nearest_name.hpp"
#include "evaluators/yaml/strict_yaml.hpp"

namespace cultivar {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kLongestName = 100;

void refuse(YamlMap& map, const char* key, const char* why) {
  if (map.has(key)) map.require(key).fail(why);
}

Budget read_budget(const YamlNode& node, bool has_models) {
  YamlMap map = node.map();
  Budget budget;
  const auto limit = [&](const char* key) {  // `off` as if it were omitted
    auto found = map.optional(key);
    return found && found->is_scalar() && found->string() == "off" ? std::nullopt : std::move(found);
  };
  if (auto wall = limit("wall")) {
    budget.wall_s = read_duration(*wall, true);
    if (!(budget.wall_s > 0)) wall->fail("the limit is zero; write off for a search without a time limit");
  }
  if (auto evaluations = limit("evaluations")) budget.evaluations = evaluations->integer(1);
  for (const char* key : {"usd", "tokens"})
    if (!has_models)
      refuse(map, key,
             "the configuration has no `models` section, so no language model is used; remove this key");
  if (auto usd = limit("usd")) budget.models.usd = usd->number(0.0, 1e9);
  if (auto tokens = limit("tokens")) budget.models.tokens = tokens->integer(0);
  if (auto hours = limit("device_hours")) {
    budget.device_s = 3600.0 * hours->number(0.0, 1e7);
    if (!(budget.device_s > 0)) hours->fail("the limit is zero; write off for a search without it");
  }
  if (auto plateau = limit("plateau")) budget.plateau_s = read_duration(*plateau);
  if (auto last = map.optional("last_comparisons")) budget.last_comparisons = last->integer(0);
  refuse(map, "gpu_hours", "write device_hours, which counts the time of all devices of any target");
  map.finish();
  return budget;
}

Settings settings_of(EvaluationConfig& e) {
  return {{"depth", &e.depth, 1, 1024},
          {"compile_workers", &e.compile_workers, 0, 256},
          {"cores", &e.cores, 0, 4096},
          {"compile_deadline", Seconds{&e.compile_deadline_s}},
          {"run_deadline", Seconds{&e.run_deadline_s}},
          {"prepare_deadline", Seconds{&e.prepare_deadline_s}},
          {"recycle_after", &e.recycle_after, 1, 1e6},
          {"screening_samples", &e.screening_samples, 3, 1e5},
          {"max_samples", &e.max_samples, 3, 1e5},
          {"screening_seconds", Seconds{&e.screening_seconds, true}},
          {"max_seconds", Seconds{&e.max_seconds}},
          {"patience", Seconds{&e.patience_s}},
          {"oracle_rows", &e.oracle_rows, 1, 1e6},
          {"pace_every", Seconds{&e.pace_every_s}}};
}

Settings gate_settings(Config& c) {
  GateOptions& g = c.gate;
  return {{"min_gain", &g.min_gain, 0, 1},
          {"max_workload_loss", &g.max_workload_loss, 1e-6, 1},
          {"max_error_growth", &c.max_error_growth, 1, 1e9},
          {"alpha", &c.gate_alpha, 1e-9, 0.5},
          {"futility", &g.futility, 1e-9, 0.5},
          {"guard", &g.guard, 1e-9, 0.5},
          {"min_blocks", &g.min_blocks, 2, 1e6},
          {"max_blocks", &g.max_blocks, 2, 1e6},
          {"max_device_seconds", Seconds{&g.max_device_seconds}}};
}

Settings settings_of(SupervisorOptions& s) {
  return {{"active", &s.active},
          {"evaluations", &s.evaluations, 0, 1e9},
          {"device_time", Seconds{&s.device_s, true}},
          {"usd", &s.usd, 0, 1e9},
          {"failures", &s.failures, 0, 1e6},
          {"repetitions", &s.repetitions, 0, 1e6},
          {"trials", &s.trials, 0, 1e6},
          {"roofline", &s.roofline, 0, 10},
          {"term", &s.term, 1, 1e6}};
}

Settings settings_of(CheckpointConfig& c) {
  return {{"every", Seconds{&c.every_s}}, {"keep", &c.keep, 1, 1000}};
}

// Of three proposals for each measuring worker one is measured, one is compiled, and one waits for either.
int usual_depth(const EvaluationConfig& e) {
  return std::max(4, 3 * static_cast<int>(e.devices.size()) * e.workers_per_device);
}

// With instruments a profile shows a kernel's bottlenecks; without, it shows what a model needs to know.
EvaluationConfig evaluation_defaults(Target target) {
  EvaluationConfig e;
  if (target->instruments) e.profile = EvaluationConfig::Profiles::elites;
  e.workers_per_device = target->workers_per_device;
  e.depth = usual_depth(e);
  return e;
}

EvaluationConfig read_evaluation(const YamlNode& node, Target target) {
  YamlMap map = node.map();
  EvaluationConfig e = evaluation_defaults(target);
  read_settings(map, settings_of(e));
  if (auto list = map.optional("devices")) {
    e.devices.clear();
    for (const YamlNode& item : list->items()) e.devices.push_back(static_cast<int>(item.integer(0, 1023)));
    if (e.devices.empty()) list->fail("name at least one device, for example [0]");
    if (target->on_host && e.devices != std::vector{0})
      list->fail(fmt::format("the {} target has only device 0: remove this key", name_of(target)));
  }
  if (auto python = map.optional("python")) e.python = python->string();
  if (auto launcher = map.optional("launcher")) {
    if (launcher->is_map()) {
      YamlMap roles = launcher->map();
      if (auto list = roles.optional("measure")) e.launcher = list->strings();
      if (auto list = roles.optional("compile")) e.compile_launcher = list->strings();
      roles.finish();
    } else {
      e.launcher = launcher->strings();  // a compile worker needs no device, so it starts without a scheduler
    }
  }
  if (!e.launcher.empty()) e.workers_per_device = 1;  // a scheduler gives each worker its own device
  if (auto n = map.optional("workers_per_device")) {
    e.workers_per_device = static_cast<int>(n->integer(1, e.launcher.empty() ? 8 : 1024));
    if (target->on_host && e.workers_per_device > 1 && e.launcher.empty())
      n->fail(
          fmt::format("on the {} target several workers would disturb each other's measurements: remove this "
                      "key, or give each of them cores of its own with a `launcher`",
                      name_of(target)));
  }
  if (auto which = map.optional("profile"))
    e.profile = which->one_of({"off", "elites"}) == "elites" ? EvaluationConfig::Profiles::elites
                                                             : EvaluationConfig::Profiles::off;
  if (!map.has("depth")) e.depth = usual_depth(e);
  map.finish();
  if (e.max_samples < e.screening_samples)
    node.fail(fmt::format("max_samples is {}, below screening_samples, which is {}", e.max_samples,
                          e.screening_samples));
  return e;
}

void read_gate(const YamlNode& node, Config& config) {
  YamlMap map = node.map();
  read_settings(map, gate_settings(config));
  map.finish();
  if (config.gate.max_blocks < config.gate.min_blocks) node.fail("max_blocks must not be below min_blocks");
}

CheckpointConfig read_checkpoint(const YamlNode& node) {
  YamlMap map = node.map();
  CheckpointConfig checkpoint;
  read_settings(map, settings_of(checkpoint));
  map.finish();
  if (checkpoint.every_s < 1.0) node.fail("every must be at least 1s");
  return checkpoint;
}

fs::path absolute_from(const fs::path& base, const fs::path& path) {
  return fs::absolute(path.is_absolute() ? path : base / path).lexically_normal();
}

std::vector<std::string> folders_with_a_task(const fs::path& tasks) {
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(tasks, none))
    if (fs::exists(entry.path() / "task.yaml", none)) names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

fs::path find_task(const YamlNode& node, const fs::path& base, const fs::path& tasks) {
  const fs::path text = node.string();
  const fs::path folder = absolute_from(base, text), installed = tasks / text;
  std::error_code none;
  if (text.native().find('/') != std::string::npos || text == "." || fs::exists(folder / "task.yaml", none)) {
    if (fs::exists(folder / "task.yaml", none)) return folder;
    node.fail("there is no task.yaml in " + folder.string());
  }
  if (fs::exists(installed / "task.yaml", none)) return fs::absolute(installed).lexically_normal();
  node.fail("there is no task '" + text.string() + "'" +
            did_you_mean(text.string(), folders_with_a_task(tasks)) + "; write the name of a folder in " +
            tasks.string() + ", or the path of a folder with a task.yaml");
}

// The sources in a folder that are compiled for the target.
std::vector<fs::path> sources_in(const fs::path& folder, Target target) {
  std::vector<fs::path> sources;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none))
    if (is_source_for(target, entry.path())) sources.push_back(entry.path());
  std::ranges::sort(sources, {}, [](const fs::path& file) { return std::pair(file.stem(), file); });
  return sources;
}

std::vector<std::string> names_of(const std::vector<fs::path>& sources) {
  std::vector<std::string> names;
  for (const fs::path& file : sources) names.push_back(file.stem());
  return names;
}

// "*.cpp", or of several languages "*.cu or *.py".
std::string files_for(Target target) {
  std::vector<std::string> files;
  for (const Language language : languages())
    if (compiles_for(language, target)) files.push_back("*" + language->extension);
  return fmt::format("{}", fmt::join(files, " or "));
}

// A name without slash and extension is looked up in the task's folder; any other text is a path.
fs::path read_source(const YamlNode& item, const fs::path& base, const fs::path& folder, Target target) {
  std::error_code none;
  const auto known = sources_in(folder, target);
  const fs::path text = item.string();
  const bool is_path = text.native().find('/') != std::string::npos || text.has_extension();
  const auto named = std::ranges::find(known, text, &fs::path::stem);
  const fs::path path = is_path ? absolute_from(base, text) : named != known.end() ? *named : fs::path();
  if (!fs::is_regular_file(path, none))
    item.fail(is_path         ? "no such file: " + path.string()
              : known.empty() ? fmt::format("'{}' is not in {}, which has no {} file (is `target` right?)",
                                            text.string(), folder.string(), files_for(target))
                              : "'" + text.string() + "' is not in " + folder.string() +
                                    did_you_mean(text.string(), names_of(known)));
  return path;
}

std::vector<fs::path> read_sources(const YamlNode& node, const fs::path& base, const fs::path& folder,
                                   Target target) {
  std::vector<fs::path> paths;
  for (const YamlNode& item : node.items()) {
    paths.push_back(read_source(item, base, folder, target));
    if (std::ranges::count(paths, paths.back()) > 1) item.fail("'" + item.string() + "' is named twice");
  }
  return paths;
}

// A source as above, or a library by path or catalog name; libraries are located when the search starts.
void read_contenders(const YamlNode& node, const fs::path& base, const Installation& installation,
                     Config& c) {
  const Target target = c.target;
  const fs::path folder = c.task_folder / "contenders";
  const std::vector<std::string> sources = names_of(sources_in(folder, target));
  std::error_code none;
  for (const YamlNode& item : node.items()) {
    const std::string text = item.string();
    std::string library;
    const fs::path program = folder / (text + ".py");
    const bool plain = text.find('/') == std::string::npos && !fs::path(text).has_extension() &&
                       std::ranges::find(sources, text) == sources.end();
    if (names_a_library_file(text) || names_a_program(text)) {
      library = absolute_from(base, text).string();
    } else if (plain && fs::is_regular_file(program, none)) {
      library = program.string();
    } else if (plain) {
      const fs::path programs = installation.programs.empty() ? program_folder() : installation.programs;
      for (const KnownContender& known : known_contenders(programs))
        if (known.name == text)
          library = known.tasks.empty() && known.program.empty() ? known.library.string() : text;
      if (library.empty()) try {
          (void)find_contender_library(text, base, programs, sources);
        } catch (const InputError& e) {
          item.fail(e.what());
        }
    } else {
      const fs::path path = read_source(item, base, folder, target);
      if (std::ranges::find(c.contenders, path) != c.contenders.end())
        item.fail("'" + text + "' is named twice");
      c.contenders.push_back(path);
      continue;
    }
    if (std::ranges::find(c.libraries, library) != c.libraries.end())
      item.fail("'" + text + "' is named twice");
    c.libraries.push_back(library);
  }
}

std::string workload_set(const YamlNode& node, const Task& task) {
  const std::string name = node.string();
  if (task.workloads(name)) return name;
  std::vector<std::string> known;
  for (const WorkloadSet& set : task.workload_sets) known.push_back(set.name);
  node.fail("task " + task.name + " has no workload set '" + name + "'" + did_you_mean(name, known));
}

// cuda:1 or cpu:8 on the command line is two keys in a configuration.
Target read_target(const YamlNode& node) {
  const std::string text = node.string();
  for (const Target target : targets())
    if (text.starts_with(name_of(target) + ":")) {
      const std::string number = text.substr(text.find(':') + 1);
      node.fail(fmt::format("'{}' is not valid in a configuration: write `target: {}` and `{}`", text,
                            name_of(target),
                            target->on_host ? fmt::format("evaluation.cores: {}", number)
                                            : fmt::format("evaluation.devices: [{}]", number)));
    }
  return target_of(node);
}

Config read_config(const YamlNode& root, const fs::path& base, const Installation& installation, int rules) {
  YamlMap map = root.map();
  Config c;
  c.rules = rules;
  if (auto node = map.optional("rules")) c.rules = static_cast<int>(node->integer(1, kNewestRules));
  c.name = read_folder_name(map.require("name"));
  const YamlNode task_node = map.require("task");
  c.task_folder = find_task(task_node, base, installation.tasks);
  c.task = std::make_shared<const Task>(load_task(c.task_folder));
  const Task& task = *c.task;
  if (auto target = map.optional("target")) c.target = read_target(*target);

  c.workloads = workload_set(map.require("workloads"), task);
  if (auto holdout = map.optional("holdout")) {
    c.holdout = workload_set(*holdout, task);
    if (c.holdout == c.workloads)
      holdout->fail("the search must not use the holdout workloads: name another set");
  }
  if (auto seeds = map.optional("seeds")) {
    c.seeds = read_sources(*seeds, base, c.task_folder / "seeds", c.target);
    if (c.seeds.empty()) {
      const auto known = names_of(sources_in(c.task_folder / "seeds", c.target));
      seeds->fail(fmt::format(
          "the list is empty, but a search needs at least one seed: {}",
          known.empty()
              ? fmt::format("name a {} file by its path", files_for(c.target))
              : fmt::format("name some of {}, or omit the key to use all of them", fmt::join(known, ", "))));
    }
  } else {
    // In the target's first language: another may need a compiler that this machine lacks.
    c.seeds = sources_in(c.task_folder / "seeds", c.target);
    const std::vector<fs::path> all = c.seeds;
    std::erase_if(c.seeds,
                  [&](const fs::path& file) { return language_of_file(file) != usual_language(c.target); });
    if (c.seeds.empty()) c.seeds = all;
  }
  if (c.seeds.empty())
    root.fail("a search needs at least one seed, but " + (c.task_folder / "seeds").string() + " has no " +
              files_for(c.target));
  if (auto contenders = map.optional("contenders")) read_contenders(*contenders, base, installation, c);
  if (auto budget = map.optional("budget")) c.budget = read_budget(*budget, map.has("models"));
  c.population = population_defaults(c.target, c.rules);
  if (auto population = map.optional("population")) c.population = read_population(*population, c.population);
  c.evaluation = evaluation_defaults(c.target);
  if (auto evaluation = map.optional("evaluation")) c.evaluation = read_evaluation(*evaluation, c.target);
  if (auto gate = map.optional("gate")) read_gate(*gate, c);
  if (auto checkpoint = map.optional("checkpoint")) c.checkpoint = read_checkpoint(*checkpoint);
  if (auto notify = map.optional("notify")) c.notify = read_notify(*notify);
  if (auto metrics = map.optional("metrics"); metrics && metrics->string() != "off")
    c.metrics = absolute_from(base, metrics->string());
  if (auto seed = map.optional("seed")) c.seed = static_cast<std::uint64_t>(seed->integer(0));
  if (auto models = map.optional("models"))
    c.models = read_models(*models, base, c.budget.models.usd || limits_operators_in_usd(map));
  const auto evaluation_given = map.optional("evaluation");
  if (!c.models.empty() && !(evaluation_given && evaluation_given->map().has("profile")))
    c.evaluation.profile = EvaluationConfig::Profiles::elites;
  read_asking(map, base, c);
  c.supervisor.active = c.rules >= 2;
  c.asking.prompts.any_header_order = c.rules >= 8;
  if (auto supervisor = map.optional("supervisor")) {
    YamlMap keys = supervisor->map();
    read_settings(keys, settings_of(c.supervisor));
    keys.finish();
    if (c.supervisor.active && c.rules < 2)
      supervisor->fail("rules 1 have no supervisor: remove this key, or `rules`");
  }
  map.finish();
  return c;
}

YamlNode overridden(YamlNode root, const std::vector<std::string>& overrides) {
  if (!overrides.empty())
    (void)root.map();  // errors in the file itself are reported for the file, not for --set
  for (const std::string& text : overrides) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
      throw InputError("--set " + text +
                       ": not of the form key=value; write for example --set budget.wall=10m");
    const std::string key = text.substr(0, equals);
    root = root.with(key, parse_yaml(text.substr(equals + 1), "--set " + key));
  }
  return root;
}

}  // namespace

std::string read_folder_name(const YamlNode& node) {
  const std::string name = node.string();
  if (name.find('/') != std::string::npos || name.starts_with('.'))
    node.fail("the name becomes a folder's name: it must not contain a slash or start with a dot");
  if (name.size() > kLongestName)
    node.fail(fmt::format("the name becomes a folder's name: {} characters at most", kLongestName));
  if (std::ranges::any_of(name, [](unsigned char l) { return std::iscntrl(l) != 0; }))
    node.fail("the name becomes a folder's name: it must not contain line ends or other control characters");
  return name;
}

Config config_of(const YamlNode& root, const fs::path& base, const std::vector<std::string>& overrides,
                 const Installation& installation) {
  return read_config(overridden(root, overrides), base, installation, kNewestRules);
}

Config parse_config(const std::string& text, const std::string& origin, const fs::path& base,
                    const std::vector<std::string>& overrides, const Installation& installation) {
  return read_config(overridden(parse_yaml(text, origin), overrides), base, installation, 1);
}

Config load_config(const fs::path& file, const std::vector<std::string>& overrides,
                   const Installation& installation) {
  const YamlNode root = read_yaml(file);
  if (YamlMap map = root.map(); map.has("tasks") && !map.has("task"))
    map.require("tasks").fail(fmt::format("this is a suite: cultivar suite {}", shell_word(file.string())));
  return config_of(root, fs::absolute(file).parent_path(), overrides, installation);
}

std::string to_yaml(const Config& c) {
  Config written = c;  // settings refer to what they are of, and may change it
  std::string yaml = fmt::format("name: {}\ntask: {}\ntarget: {}\nworkloads: {}\n", json_text(c.name),
                                 json_text(c.task_folder), name_of(c.target), json_text(c.workloads));
  if (!c.holdout.empty()) yaml += fmt::format("holdout: {}\n", json_text(c.holdout));
  yaml += fmt::format("seeds: {}\n", json_text(c.seeds));
  std::vector<std::string> contenders(c.contenders.begin(), c.contenders.end());
  contenders.insert(contenders.end(), c.libraries.begin(), c.libraries.end());
  if (!contenders.empty()) yaml += fmt::format("contenders: {}\n", json_text(contenders));
  const Cap& cap = c.budget.models;
  const Budget& budget = c.budget;
  const bool other_last = budget.last_comparisons != Budget{}.last_comparisons;
  if (budget.wall_s > 0 || budget.evaluations > 0 || budget.device_s > 0 || budget.plateau_s > 0 || cap.usd ||
      cap.tokens || other_last) {
    yaml += "budget:\n";
    if (cap.usd) yaml += fmt::format("  usd: {}\n", *cap.usd);
    if (cap.tokens) yaml += fmt::format("  tokens: {}\n", *cap.tokens);
    if (c.budget.wall_s > 0) yaml += fmt::format("  wall: {}s\n", c.budget.wall_s);
    if (c.budget.evaluations > 0) yaml += fmt::format("  evaluations: {}\n", c.budget.evaluations);
    if (budget.device_s > 0) yaml += fmt::format("  device_hours: {}\n", budget.device_s / 3600.0);
    if (other_last) yaml += fmt::format("  last_comparisons: {}\n", budget.last_comparisons);
    if (budget.plateau_s > 0) yaml += fmt::format("  plateau: {}s\n", budget.plateau_s);
  }
  const EvaluationConfig& e = c.evaluation;
  yaml += fmt::format("rules: {}\n", c.rules) + population_yaml(c.population) + asking_yaml(c) +
          fmt::format("supervisor: {}\n", flow_text(settings_of(written.supervisor)));
  yaml += fmt::format(
      "evaluation:\n{}  devices: {}\n  python: {}\n  launcher: {{measure: {}, compile: {}}}\n  "
      "workers_per_device: {}\n  profile: {}\n",
      block_text(settings_of(written.evaluation)), json_text(e.devices), json_text(e.python),
      json_text(e.launcher), json_text(e.compile_launcher), e.workers_per_device,
      e.profile == EvaluationConfig::Profiles::elites ? "elites" : "off");
  yaml += fmt::format("gate:\n{}checkpoint: {}\nseed: {}\n", block_text(gate_settings(written)),
                      flow_text(settings_of(written.checkpoint)), c.seed);
  if (!c.metrics.empty()) yaml += fmt::format("metrics: {}\n", json_text(c.metrics));
  return yaml + notify_yaml(c.notify) + to_yaml(c.models);
}

Sampling sampling_of(const EvaluationConfig& e) {
  Sampling sampling;
  sampling.screening_samples = e.screening_samples;
  sampling.screening_seconds = e.screening_seconds;
  sampling.max_samples = e.max_samples;
  sampling.max_seconds = e.max_seconds;
  sampling.oracle_rows = e.oracle_rows;
  return sampling;
}

}  // namespace cultivar
