#include "engine/config.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <cctype>
#include <cmath>

#include "engine/asking_settings.hpp"
#include "engine/model_settings.hpp"
#include "evaluators/contenders/catalogue.hpp"
#include "evaluators/worker/link.hpp"
#include "evaluators/yaml/nearest_name.hpp"
#include "evaluators/yaml/strict_yaml.hpp"

namespace cultivar {

namespace fs = std::filesystem;

namespace {

constexpr double kLongestSeconds = 10 * 366 * 86400.0;
constexpr std::size_t kLongestName = 100;

double read_duration(const YamlNode& node) {
  const auto seconds = duration_seconds(node.string());
  if (!seconds) node.fail("'" + node.string() + "' is not a duration (write 90s, 3m, 2h, 7d or 1h30m)");
  if (*seconds > kLongestSeconds) node.fail("'" + node.string() + "' is longer than ten years");
  return *seconds;
}

void refuse(YamlMap& map, const char* key, const char* why) {
  if (map.has(key)) map.require(key).fail(why);
}

Budget read_budget(const YamlNode& node, bool has_models) {
  YamlMap map = node.map();
  Budget budget;
  if (auto wall = map.optional("wall")) {
    budget.wall_s = read_duration(*wall);
    if (!(budget.wall_s > 0)) wall->fail("no time at all: leave wall out for a search without a limit");
  }
  if (auto evaluations = map.optional("evaluations")) budget.evaluations = evaluations->integer(1);
  for (const char* key : {"usd", "tokens"})
    if (!has_models) refuse(map, key, "there is no `models` section, so no language model costs anything");
  if (auto usd = map.optional("usd")) budget.models.usd = usd->number(0.0, 1e9);
  if (auto tokens = map.optional("tokens")) budget.models.tokens = tokens->integer(0);
  refuse(map, "gpu_hours", "this version counts no GPU time; limit the run with wall or evaluations");
  map.finish();
  return budget;
}

IslandOptions read_population(const YamlNode& node) {
  YamlMap map = node.map();
  IslandOptions options;
  if (auto n = map.optional("islands")) options.islands = static_cast<int>(n->integer(1, 64));
  if (auto n = map.optional("elites")) options.elites = static_cast<int>(n->integer(1, 1024));
  if (auto n = map.optional("migrate_every"))
    options.migrate_every = static_cast<int>(n->integer(0, 1'000'000));
  if (auto n = map.optional("immigrants")) options.immigrants = static_cast<int>(n->integer(0, 1024));
  if (auto n = map.optional("tournament")) options.tournament = static_cast<int>(n->integer(1, 64));
  if (auto n = map.optional("explore")) options.explore = n->number(0.0, 1.0);
  map.finish();
  if (2 * options.immigrants > options.elites)
    node.fail(fmt::format("immigrants ({}) may be at most half of elites ({}), or the islands become one",
                          options.immigrants, options.elites));
  return options;
}

// On a GPU a profile tells what a kernel runs into; on a cpu it knows little more than the time.
EvaluationConfig evaluation_defaults(TargetKind target) {
  EvaluationConfig e;
  if (target == TargetKind::cuda) {
    e.profile = EvaluationConfig::Profiles::elites;
    e.workers_per_device = 4;
  }
  return e;
}

EvaluationConfig read_evaluation(const YamlNode& node, TargetKind target) {
  YamlMap map = node.map();
  EvaluationConfig e = evaluation_defaults(target);
  if (auto n = map.optional("depth")) e.depth = static_cast<int>(n->integer(1, 1024));
  if (auto n = map.optional("compile_workers")) e.compile_workers = static_cast<int>(n->integer(0, 256));
  if (auto list = map.optional("devices")) {
    e.devices.clear();
    for (const YamlNode& item : list->items()) e.devices.push_back(static_cast<int>(item.integer(0, 1023)));
    if (e.devices.empty()) list->fail("at least one device is needed, as in [0]");
    if (target == TargetKind::cpu && e.devices != std::vector{0})
      list->fail("the cpu target has one device, number 0: leave this key out");
  }
  if (auto n = map.optional("cores")) e.cores = static_cast<int>(n->integer(0, 4096));
  if (auto list = map.optional("launcher")) e.launcher = list->strings();
  if (!e.launcher.empty()) e.workers_per_device = 1;  // a scheduler gives each a device of its own
  if (auto n = map.optional("workers_per_device")) {
    e.workers_per_device = static_cast<int>(n->integer(1, 8));
    if (target == TargetKind::cpu && e.workers_per_device > 1)
      n->fail("on the cpu target workers would disturb each other's measurements: leave this key out");
  }
  if (auto d = map.optional("compile_deadline")) e.compile_deadline_s = read_duration(*d);
  if (auto d = map.optional("run_deadline")) e.run_deadline_s = read_duration(*d);
  if (auto n = map.optional("recycle_after")) e.recycle_after = static_cast<int>(n->integer(1, 1'000'000));
  if (auto n = map.optional("screening_samples"))
    e.screening_samples = static_cast<int>(n->integer(3, 100'000));
  if (auto n = map.optional("max_samples")) e.max_samples = static_cast<int>(n->integer(3, 100'000));
  if (auto d = map.optional("screening_seconds")) e.screening_seconds = read_duration(*d);
  if (auto d = map.optional("max_seconds")) e.max_seconds = read_duration(*d);
  if (auto d = map.optional("pace_every")) e.pace_every_s = read_duration(*d);
  if (auto n = map.optional("oracle_rows")) e.oracle_rows = static_cast<int>(n->integer(1, 1'000'000));
  if (auto which = map.optional("profile"))
    e.profile = which->one_of({"off", "elites"}) == "elites" ? EvaluationConfig::Profiles::elites
                                                             : EvaluationConfig::Profiles::off;
  map.finish();
  if (e.max_samples < e.screening_samples) node.fail("max_samples must not be below screening_samples");
  for (const auto& [name, value] :
       {std::pair("compile_deadline", e.compile_deadline_s), std::pair("run_deadline", e.run_deadline_s),
        std::pair("max_seconds", e.max_seconds), std::pair("pace_every", e.pace_every_s)})
    if (!(value > 0)) node.fail(fmt::format("{} must be longer than nothing", name));
  return e;
}

void read_gate(const YamlNode& node, Config& config) {
  YamlMap map = node.map();
  GateOptions& g = config.gate;
  if (auto n = map.optional("min_gain")) g.min_gain = n->number(0.0, 1.0);
  if (auto n = map.optional("max_workload_loss")) g.max_workload_loss = n->number(1e-6, 1.0);
  if (auto n = map.optional("alpha")) config.gate_alpha = n->number(1e-9, 0.5);
  if (auto n = map.optional("futility")) g.futility = n->number(1e-9, 0.5);
  if (auto n = map.optional("guard")) g.guard = n->number(1e-9, 0.5);
  if (auto n = map.optional("min_blocks")) g.min_blocks = static_cast<int>(n->integer(2, 1'000'000));
  if (auto n = map.optional("max_blocks")) g.max_blocks = static_cast<int>(n->integer(2, 1'000'000));
  if (auto d = map.optional("max_device_seconds")) g.max_device_seconds = read_duration(*d);
  map.finish();
  if (g.max_blocks < g.min_blocks) node.fail("max_blocks must not be below min_blocks");
  if (!(g.max_device_seconds > 0)) node.fail("max_device_seconds must be longer than nothing");
}

CheckpointConfig read_checkpoint(const YamlNode& node) {
  YamlMap map = node.map();
  CheckpointConfig checkpoint;
  if (auto d = map.optional("every")) checkpoint.every_s = read_duration(*d);
  if (auto n = map.optional("keep")) checkpoint.keep = static_cast<int>(n->integer(1, 1000));
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
    node.fail("no task.yaml in " + folder.string());
  }
  if (fs::exists(installed / "task.yaml", none)) return fs::absolute(installed).lexically_normal();
  node.fail("no task is called '" + text.string() + "'" +
            did_you_mean(text.string(), folders_with_a_task(tasks)) + "; a task is a name in " +
            tasks.string() + " or the path of a folder with a task.yaml");
}

std::vector<std::string> sources_in(const fs::path& folder, const std::string& extension) {
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none))
    if (entry.path().extension() == extension) names.push_back(entry.path().stem());
  std::ranges::sort(names);
  return names;
}

// A name is looked up in the task's folder; anything with a slash or an extension is a path.
fs::path read_source(const YamlNode& item, const fs::path& base, const fs::path& folder,
                     const std::string& extension) {
  std::error_code none;
  const auto known = sources_in(folder, extension);
  const fs::path text = item.string();
  const bool is_path = text.native().find('/') != std::string::npos || text.has_extension();
  const fs::path path = is_path ? absolute_from(base, text) : folder / (text.string() + extension);
  if (!fs::is_regular_file(path, none))
    item.fail(is_path         ? "no such file: " + path.string()
              : known.empty() ? fmt::format("'{}' is not in {}, which has no *{} at all (is `target` right?)",
                                            text.string(), folder.string(), extension)
                              : "'" + text.string() + "' is not in " + folder.string() +
                                    did_you_mean(text.string(), known));
  return path;
}

std::vector<fs::path> read_sources(const YamlNode& node, const fs::path& base, const fs::path& folder,
                                   const std::string& extension) {
  std::vector<fs::path> paths;
  for (const YamlNode& item : node.items()) {
    paths.push_back(read_source(item, base, folder, extension));
    if (std::ranges::count(paths, paths.back()) > 1) item.fail("'" + item.string() + "' is named twice");
  }
  return paths;
}

// A source as above; or a library, by path or by a name of the catalogue, which is looked for when the
// search begins.
void read_contenders(const YamlNode& node, const fs::path& base, const Installation& installation,
                     const std::string& extension, Config& c) {
  const fs::path folder = c.task_folder / "contenders";
  std::error_code none;
  for (const YamlNode& item : node.items()) {
    const std::string text = item.string();
    std::string library;
    if (names_a_library_file(text)) {
      library = absolute_from(base, text).string();
    } else if (text.find('/') == std::string::npos && !fs::path(text).has_extension() &&
               !fs::is_regular_file(folder / (text + extension), none)) {
      const fs::path programs = installation.programs.empty() ? program_folder() : installation.programs;
      for (const KnownContender& known : known_contenders(programs))
        if (known.name == text) library = known.task.empty() ? known.library.string() : text;
      if (library.empty()) try {
          (void)find_contender_library(text, base, programs, sources_in(folder, extension));
        } catch (const InputError& e) {
          item.fail(e.what());
        }
    } else {
      const fs::path path = read_source(item, base, folder, extension);
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

// What the command line writes as cuda:1 or cpu:8 are two keys here.
TargetKind read_target(const YamlNode& node) {
  const std::string text = node.string();
  for (const auto& [target, key] :
       {std::pair("cuda", "evaluation.devices: [{}]"), std::pair("cpu", "evaluation.cores: {}")})
    if (text.starts_with(std::string(target) + ":"))
      node.fail(fmt::format("'{}' is not allowed here: write `target: {}`, and `{}`", text, target,
                            fmt::format(fmt::runtime(key), text.substr(text.find(':') + 1))));
  return node.one_of({"cpu", "cuda"}) == "cuda" ? TargetKind::cuda : TargetKind::cpu;
}

Config read_config(const YamlNode& root, const fs::path& base, const Installation& installation) {
  YamlMap map = root.map();
  Config c;
  const YamlNode name = map.require("name");
  c.name = name.string();
  if (c.name.find('/') != std::string::npos || c.name.starts_with('.'))
    name.fail("a name becomes a folder's name: no slash, no dot in front");
  if (c.name.size() > kLongestName)
    name.fail(fmt::format("a name becomes a folder's name: {} characters at most", kLongestName));
  if (std::ranges::any_of(c.name, [](unsigned char l) { return std::iscntrl(l) != 0; }))
    name.fail("a name becomes a folder's name: no line ends and no other control characters");
  const YamlNode task_node = map.require("task");
  c.task_folder = find_task(task_node, base, installation.tasks);
  const Task task = load_task(c.task_folder);
  if (auto target = map.optional("target")) c.target = read_target(*target);
  const std::string extension = c.target == TargetKind::cuda ? ".cu" : ".cpp";

  c.workloads = workload_set(map.require("workloads"), task);
  if (auto holdout = map.optional("holdout")) {
    c.holdout = workload_set(*holdout, task);
    if (c.holdout == c.workloads)
      holdout->fail("the search must not see the holdout workloads: name another set");
  }
  if (auto seeds = map.optional("seeds")) {
    c.seeds = read_sources(*seeds, base, c.task_folder / "seeds", extension);
    if (c.seeds.empty()) {
      const auto known = sources_in(c.task_folder / "seeds", extension);
      seeds->fail(fmt::format("the list is empty, and a search needs at least one seed: {}",
                              known.empty()
                                  ? fmt::format("name a *{} file by its path", extension)
                                  : fmt::format("name some of {}, or leave the key out to have all of them",
                                                fmt::join(known, ", "))));
    }
  } else {
    for (const std::string& seed : sources_in(c.task_folder / "seeds", extension))
      c.seeds.push_back(c.task_folder / "seeds" / (seed + extension));
  }
  if (c.seeds.empty())
    root.fail("a search needs at least one seed, and " + (c.task_folder / "seeds").string() + " has no *" +
              extension);
  if (auto contenders = map.optional("contenders"))
    read_contenders(*contenders, base, installation, extension, c);
  if (auto budget = map.optional("budget")) c.budget = read_budget(*budget, map.has("models"));
  if (auto population = map.optional("population")) c.population = read_population(*population);
  c.evaluation = evaluation_defaults(c.target);
  if (auto evaluation = map.optional("evaluation")) c.evaluation = read_evaluation(*evaluation, c.target);
  if (auto gate = map.optional("gate")) read_gate(*gate, c);
  if (auto checkpoint = map.optional("checkpoint")) c.checkpoint = read_checkpoint(*checkpoint);
  if (auto seed = map.optional("seed")) c.seed = static_cast<std::uint64_t>(seed->integer(0));
  if (auto models = map.optional("models"))
    c.models = read_models(*models, base, c.budget.models.usd || limits_operators_in_usd(map));
  read_asking(map, base, c);
  refuse(map, "supervisor", "this version has no supervisor; remove this key");
  map.finish();
  return c;
}

// Quoted, with what YAML needs escaped.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

template <class List>
std::string quoted_list(const List& list) {
  std::string out = "[";
  for (const auto& item : list) {
    if (out.size() > 1) out += ", ";
    out += quoted(std::string(item));
  }
  return out + "]";
}

YamlNode overridden(YamlNode root, const std::vector<std::string>& overrides) {
  if (!overrides.empty()) (void)root.map();  // what is wrong with the file itself is the file's fault
  for (const std::string& text : overrides) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
      throw InputError("--set " + text + ": write it as key=value, as in --set budget.wall=10m");
    const std::string key = text.substr(0, equals);
    root = root.with(key, parse_yaml(text.substr(equals + 1), "--set " + key));
  }
  return root;
}

}  // namespace

Config parse_config(const std::string& text, const std::string& origin, const fs::path& base,
                    const std::vector<std::string>& overrides, const Installation& installation) {
  return read_config(overridden(parse_yaml(text, origin), overrides), base, installation);
}

Config load_config(const fs::path& file, const std::vector<std::string>& overrides,
                   const Installation& installation) {
  return read_config(overridden(read_yaml(file), overrides), fs::absolute(file).parent_path(), installation);
}

std::string to_yaml(const Config& c) {
  const EvaluationConfig& e = c.evaluation;
  const GateOptions& g = c.gate;
  std::string yaml = fmt::format("name: {}\ntask: {}\ntarget: {}\nworkloads: {}\n", quoted(c.name),
                                 quoted(c.task_folder.string()), name_of(c.target), quoted(c.workloads));
  if (!c.holdout.empty()) yaml += fmt::format("holdout: {}\n", quoted(c.holdout));
  yaml += fmt::format("seeds: {}\n", quoted_list(c.seeds));
  std::vector<std::string> contenders(c.contenders.begin(), c.contenders.end());
  contenders.insert(contenders.end(), c.libraries.begin(), c.libraries.end());
  if (!contenders.empty()) yaml += fmt::format("contenders: {}\n", quoted_list(contenders));
  const Cap& cap = c.budget.models;
  if (c.budget.wall_s > 0 || c.budget.evaluations > 0 || cap.usd || cap.tokens) {
    yaml += "budget:\n";
    if (cap.usd) yaml += fmt::format("  usd: {}\n", *cap.usd);
    if (cap.tokens) yaml += fmt::format("  tokens: {}\n", *cap.tokens);
    if (c.budget.wall_s > 0) yaml += fmt::format("  wall: {}s\n", c.budget.wall_s);
    if (c.budget.evaluations > 0) yaml += fmt::format("  evaluations: {}\n", c.budget.evaluations);
  }
  const IslandOptions& p = c.population;
  yaml += fmt::format(
      "population: {{islands: {}, elites: {}, migrate_every: {}, immigrants: {}, tournament: {}, explore: "
      "{}}}\n",
      p.islands, p.elites, p.migrate_every, p.immigrants, p.tournament, p.explore);
  yaml += asking_yaml(c);
  yaml += fmt::format(
      "evaluation:\n  depth: {}\n  compile_workers: {}\n  devices: [{}]\n  workers_per_device: {}\n  cores: "
      "{}\n  launcher: {}\n  "
      "compile_deadline: "
      "{}s\n"
      "  run_deadline: {}s\n  recycle_after: {}\n  screening_samples: {}\n  max_samples: {}\n  "
      "screening_seconds: {}s\n  max_seconds: "
      "{}s\n"
      "  oracle_rows: {}\n  pace_every: {}s\n  profile: {}\n",
      e.depth, e.compile_workers, fmt::join(e.devices, ", "), e.workers_per_device, e.cores,
      quoted_list(e.launcher), e.compile_deadline_s, e.run_deadline_s, e.recycle_after, e.screening_samples,
      e.max_samples, e.screening_seconds, e.max_seconds, e.oracle_rows, e.pace_every_s,
      e.profile == EvaluationConfig::Profiles::elites ? "elites" : "off");
  yaml += fmt::format(
      "gate:\n  min_gain: {}\n  max_workload_loss: {}\n  alpha: {}\n  futility: {}\n  guard: {}\n  "
      "min_blocks: {}\n"
      "  max_blocks: {}\n  max_device_seconds: {}s\n",
      g.min_gain, g.max_workload_loss, c.gate_alpha, g.futility, g.guard, g.min_blocks, g.max_blocks,
      g.max_device_seconds);
  yaml += fmt::format("checkpoint: {{every: {}s, keep: {}}}\nseed: {}\n", c.checkpoint.every_s,
                      c.checkpoint.keep, c.seed);
  return yaml + to_yaml(c.models);
}

std::optional<double> duration_seconds(std::string_view text) {
  double total = 0.0;
  std::size_t at = 0;
  bool any = false;
  while (at < text.size()) {
    const std::size_t start = at;
    while (at < text.size() && (std::isdigit(static_cast<unsigned char>(text[at])) || text[at] == '.')) ++at;
    if (at == start) return std::nullopt;
    double value = 0.0;
    try {
      std::size_t used = 0;
      const std::string digits(text.substr(start, at - start));
      value = std::stod(digits, &used);
      if (used != digits.size()) return std::nullopt;
    } catch (const std::exception&) {
      return std::nullopt;
    }
    double unit = 1.0;
    if (at < text.size()) {
      switch (text[at++]) {
        case 's':
          unit = 1.0;
          break;
        case 'm':
          unit = 60.0;
          break;
        case 'h':
          unit = 3600.0;
          break;
        case 'd':
          unit = 86400.0;
          break;
        default:
          return std::nullopt;
      }
    } else {
      return std::nullopt;  // "90", "1h30": thirty what?
    }
    total += value * unit;
    any = true;
  }
  if (!any || !std::isfinite(total)) return std::nullopt;
  return total;
}

std::string duration_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::llround(std::max(0.0, seconds)));
  if (whole < 60) return fmt::format("{}s", whole);
  if (whole < 3600) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  if (whole < 86400) return fmt::format("{}h{:02}m", whole / 3600, whole % 3600 / 60);
  return fmt::format("{}d{:02}h", whole / 86400, whole % 86400 / 3600);
}

}  // namespace cultivar
