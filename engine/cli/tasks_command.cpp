// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/cli/commands.hpp"
#include "engine/cli/installation_paths.hpp"
#include "engine/cli/options.hpp"
#include "engine/cli/output.hpp"
#include "engine/cli/variant_argument.hpp"
#include "evaluators/system/interpreter.hpp"
#include "evaluators/target/language.hpp"
#include "evaluators/task/task.hpp"

namespace cultivar {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

json describe(const InstallationPaths& installation, const Task& task) {
  std::vector<std::string> contenders = sources_in(task.folder / "contenders");
  for (const Target target : targets())
    for (const std::string& library : contender_libraries(installation, task, target))
      if (std::find(contenders.begin(), contenders.end(), library) == contenders.end())
        contenders.push_back(library);
  json sets = json::array(), dims = json::array(), parameters = json::array(), tensors = json::array();
  for (const Dimension& d : task.dimensions)
    dims.push_back(
        {{"name", d.name}, {"about", d.about}, {"default", d.fallback ? json(d.fallback->text()) : json()}});
  for (const Parameter& p : task.parameters)
    parameters.push_back({{"name", p.name},
                          {"about", p.about},
                          {"type", p.flag ? "flag" : name_of(p.type)},
                          {"default", p.fallback ? json(p.fallback->text()) : json()}});
  for (const TensorSpec& t : task.tensors)
    tensors.push_back({{"name", t.name},
                       {"role", t.role == Role::input ? "input" : "output"},
                       {"shape", t.shape},
                       {"dtype", t.dtype ? json(name_of(*t.dtype)) : json("dtype")}});
  for (const WorkloadSet& set : task.workload_sets) {
    json workloads = json::array();
    for (const Workload& w : set.workloads)
      workloads.push_back({{"name", w.name},
                           {"dtype", name_of(w.dtype)},
                           {"values", json(w.values)},
                           {"flops", task.flops(w)},
                           {"bytes", task.bytes(w)}});
    sets.push_back({{"name", set.name}, {"about", set.about}, {"workloads", workloads}});
  }
  json dtypes = json::array();
  for (const Dtype d : task.dtypes) dtypes.push_back(name_of(d));
  return {{"name", task.name},       {"summary", task.summary}, {"folder", task.folder.string()},
          {"dtypes", dtypes},        {"dimensions", dims},      {"parameters", parameters},
          {"tensors", tensors},      {"workload_sets", sets},   {"seeds", sources_in(task.folder / "seeds")},
          {"contenders", contenders}};
}

void explain(const Task& task, const json& facts, const Output& output) {
  output.line(fmt::format("{}: {}\n{}\n", task.name, task.summary, task.folder.string()));
  Table names({"name", "what", "default"});
  for (const char* group : {"dimensions", "parameters"})
    for (const json& d : facts[group])
      names.row({d["name"], d["about"], d["default"].is_null() ? "" : d["default"].get<std::string>()});
  output.line("Dimensions and parameters\n" + names.text("  "));
  Table tensors({"tensor", "role", "type", "shape"});
  for (const json& t : facts["tensors"])
    tensors.row({t["name"], t["role"],
                 t["dtype"] == "dtype" ? "workload dtype" : t["dtype"].get<std::string>(),
                 fmt::format("[{}]", fmt::join(t["shape"].get<std::vector<std::string>>(), ", "))});
  output.line("Tensors\n" + tensors.text("  "));
  output.line("Workload sets");
  for (const WorkloadSet& set : task.workload_sets) {
    output.line(fmt::format("  {}: {}", set.name, set.about));
    for (const Workload& w : set.workloads)
      output.line(
          fmt::format("    {}  ({:.3g} GFLOP, {})", w.name, task.flops(w) / 1e9, bytes_of(task.bytes(w))));
  }
  for (const char* group : {"seeds", "contenders"}) {
    if (facts[group].empty()) continue;
    output.line(fmt::format("\n{}", group[0] == 's' ? "Seeds" : "Contenders"));
    for (const json& s : facts[group]) output.line("  " + s.get<std::string>());
  }
  for (const json& seed : facts["seeds"])
    if (const Language language = language_by_extension(seed.get<std::string>());
        language != nullptr && language->compiler_of != nullptr) {
      const auto found = language->compiler_of(default_python());
      output.line(fmt::format("  Seeds in {} are compiled by {}", language->title,
                              found ? *found : "nothing here: " + found.error().message));
      break;
    }
  std::vector<std::string> controls;
  for (const Control& c : task.controls) controls.push_back(c.name);
  output.line(fmt::format(
      "\nChecks: {} smoke, {} sweep, {} stress cases on {} shapes, {} edge shapes; the task's own "
      "negative controls (kernels that must fail): {}",
      task.smoke.size(), task.sweep.size(), task.stress.size(), task.stress_shapes.size(), task.edge.size(),
      controls.empty() ? "none" : fmt::format("{}", fmt::join(controls, ", "))));
}

}  // namespace

int tasks_command(const Arguments& arguments) {
  std::string name;
  bool as_json = false;
  Options options("tasks", "Lists the tasks, or describes one: dimensions, tensors, workload sets, seeds.",
                  "cultivar tasks attention_forward");
  options.optional_argument("TASK", name, "a task's name, or a folder with a task.yaml");
  options.flag("--json", as_json, "print the result as JSON on stdout");
  if (const auto code = options.parse(arguments)) return *code;

  const Output output(as_json);
  const InstallationPaths installation = find_installation();
  if (!name.empty()) {
    const Task task = load_task(find_task(installation, name));
    const json facts = describe(installation, task);
    if (as_json) {
      output.facts(facts);
    } else {
      explain(task, facts, output);
    }
    return 0;
  }
  json all = json::array();
  Table table({"task", "summary", "workload sets"});
  for (const std::string& each : task_names(installation)) {
    const Task task = load_task(find_task(installation, each));
    std::vector<std::string> sets;
    for (const WorkloadSet& set : task.workload_sets) sets.push_back(set.name);
    all.push_back(describe(installation, task));
    table.row({task.name, task.summary.substr(0, task.summary.find_first_of(":,;(")),
               fmt::format("{}", fmt::join(sets, " "))});
  }
  output.facts(all);
  output.line(table.text() + "\n`cultivar tasks TASK` describes one.");
  return 0;
}

}  // namespace cultivar
