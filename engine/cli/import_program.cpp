// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/import_program.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <poll.h>
#include <unistd.h>
#include <map>
#include <set>

#include "embedded/import_python.hpp"
#include "engine/cli/output.hpp"
#include "engine/cli/search_session.hpp"
#include "evaluators/check/oracle.hpp"
#include "evaluators/judge/controls.hpp"
#include "evaluators/references/python/python_reference.hpp"
#include "evaluators/system/error.hpp"
#include "evaluators/system/files.hpp"
#include "evaluators/system/json_text.hpp"
#include "evaluators/system/plain_text.hpp"
#include "evaluators/system/sandbox.hpp"
#include "evaluators/task/task.hpp"

namespace cultivar {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr double kQuietSeconds = 180.0;  // without a line: the file does not end

PythonFiles import_python_files() {
  PythonFiles files = reference_python_files();
  for (const auto& [name, text] : import_python::all)
    files.emplace_back("cultivar_import/" + std::string(name), text);
  return files;
}

// Shows the lines {"progress": ...} that the child writes, until it ends or is silent for too long; the last
// other line, or null.
json follow(ChildProcess& child, bool quiet) {
  auto deadline = deadline_in(kQuietSeconds), tell = deadline_in(15.0);
  std::string pending;
  json last;
  const auto take = [&](const std::string& line) {
    json told = json::parse(line, nullptr, false);
    if (!told.is_object()) return;
    if (told.contains("progress")) {
      if (!quiet) notify("{}\n", plain_text(told.value("progress", "")));
    } else {
      last = std::move(told);
    }
  };
  char buffer[4096];
  while (Clock::now() < deadline) {
    pollfd wait{child.output(), POLLIN, 0};
    if (::poll(&wait, 1, 500) <= 0) {
      if (!quiet && Clock::now() >= tell) {
        notify("still at it ({:.0f} s; ended after {:g} s without progress)\n",
               kQuietSeconds - in_seconds(deadline - Clock::now()), kQuietSeconds);
        tell = deadline_in(15.0);
      }
      continue;
    }
    const ssize_t got = ::read(child.output(), buffer, sizeof buffer);
    if (got <= 0) break;
    pending.append(buffer, static_cast<std::size_t>(got));
    deadline = deadline_in(kQuietSeconds), tell = deadline_in(15.0);
    for (std::size_t end; (end = pending.find('\n')) != std::string::npos; pending.erase(0, end + 1))
      take(pending.substr(0, end));
    if (pending.size() > (std::size_t{16} << 20)) break;
  }
  return last;
}

// task.yaml as the import composed it: {"before", "controls": [{"name", "about", "serious", "text"}],
// "after"}.
std::string yaml_of(const json& parts, const std::vector<json>& controls) {
  std::string text = parts.value("before", "");
  if (!controls.empty()) text += "\ncontrols:\n";
  for (const json& control : controls) text += control.value("text", "");
  return text + parts.value("after", "");
}

}  // namespace

json run_import_program(const ImportCall& call, const Interpreter& interpreter,
                        const InstallationPaths& installation) {
  const auto sources = place_python_files(import_python_files(), installation.cache);
  if (!sources) throw std::runtime_error(sources.error().message);
  PythonProgram program{.module = "cultivar_import",
                        .arguments = call.arguments,
                        .sources = *sources,
                        .readable = call.readable,
                        .writable = call.writable,
                        .card = call.card};
  program.arguments.push_back("--lines");
  ProcessOptions process;
  process.pipe_input = false;
  auto child = start_python(interpreter, program, std::move(process));
  if (!child) throw std::runtime_error(child.error().message);
  json told = follow(*child, call.quiet);
  const bool ended = child->wait_or_kill(deadline_in(5.0));
  if (told.is_object()) return told;
  std::string last = plain_text(child->captured());
  if (last.size() > 600) last = last.substr(last.size() - 600);
  throw std::runtime_error(
      fmt::format("{} ended the import without a result ({}). {}", call.subject,
                  ended ? child->poll()->describe()
                        : fmt::format("for {:g} s it did nothing that is known: look for a "
                                      "loop that does not end",
                                      kQuietSeconds),
                  last));
}

std::vector<json> drop_unnoticed(const fs::path& folder, const InstallationPaths& installation,
                                 const std::string& python, const json& parts) {
  const Task task = load_task(folder);
  const auto reference = open_reference(task, installation.cache, python);
  if (!reference) throw std::runtime_error(reference.error().message);
  std::set<std::string> unnoticed;
  for (const Target& target : targets())  // they differ in their dtypes
    for (const std::string& name : undetected_controls(task, *reference, target, 2)) unnoticed.insert(name);
  std::vector<json> kept, dropped;
  for (const json& control : parts.value("controls", json::array()))
    (unnoticed.contains(control.value("name", "")) ? dropped : kept).push_back(control);
  if (dropped.empty()) return {};
  if (const auto written = write_atomically(folder / "task.yaml", yaml_of(parts, kept)); !written)
    throw std::runtime_error(written.error().message);
  return dropped;
}

namespace {

constexpr double kShortestMs = 3.0;  // of a run on the cpu target, see configs/tasks/README.md

void write_file(const fs::path& file, const std::string& text) {
  if (const auto written = write_atomically(file, text); !written)
    throw std::runtime_error(written.error().message);
}

// A region's task, or why there is none.
struct Imported {
  json told = {};
  std::string refused = {}, workloads = {};
  double call_ms = 0.0;  // RegionTime::call_ms
};

// The installed task that computes a function of PyTorch, with the model's sizes as the workload set `model`.
// "match" has the shapes of its inputs, in order.
Imported known_task(const json& region, const ModelImport& model, const fs::path& tasks) {
  const json& match = region.at("match");
  if (model.device == "cpu" && region.at("call_ms").get<double>() < kShortestMs)
    return {.refused = fmt::format("A call is shorter than {:g} ms, too short to be timed on the cpu.",
                                   kShortestMs)};
  const fs::path folder = model.folder / "tasks" / region.at("name").get<std::string>();
  fs::create_directories(folder.parent_path());
  fs::copy(tasks / match.at("task").get<std::string>(), folder, fs::copy_options::recursive);
  if (fs::exists(tasks / "headers"))  // what seeds of several tasks share
    fs::copy(tasks / "headers", folder.parent_path() / "headers",
             fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  const Task task = load_task(folder);
  std::map<std::string, std::string> sizes;
  std::size_t input = 0;
  for (const TensorSpec& tensor : task.tensors) {
    if (tensor.role != Role::input || task.is_derived(tensor.name)) continue;
    auto shape = match.at("shapes").at(input++).get<std::vector<std::int64_t>>();
    while (shape.size() > tensor.shape.size()) {  // leading dimensions are joined
      shape[1] *= shape[0];
      shape.erase(shape.begin());
    }
    for (std::size_t d = 0; d < shape.size(); ++d)
      if (!is_constant(tensor.shape[d])) sizes[tensor.shape[d]] = std::to_string(shape[d]);
  }
  for (const auto& [name, value] : match.at("numbers").items()) sizes[name] = value.dump();
  std::vector<std::string> parts;
  for (const auto& [name, value] : sizes) parts.push_back(name + ": " + value);
  std::string text = must(read_file(folder / "task.yaml", std::size_t{1} << 20));
  const std::string head = "\nworkload_sets:\n";
  const std::size_t at = text.find(head);
  if (at == std::string::npos) throw std::runtime_error("the task has no workload sets");
  const std::string dtype = match.at("dtype").get<std::string>();
  text.insert(at + head.size(),
              fmt::format("  model:\n    about: \"the sizes of the model\"\n    dtype: {}\n    workloads:\n"
                          "      - {{{}}}\n",
                          dtype == "bfloat16"  ? "bf16"
                          : dtype == "float16" ? "f16"
                                               : "f32",
                          fmt::join(parts, ", ")));
  write_file(folder / "task.yaml", text);
  (void)load_task(folder);
  return {.told = {}, .workloads = "model", .call_ms = region.at("call_ms").get<double>()};
}

Imported import_region(const json& region, const ModelImport& model, const Interpreter& interpreter,
                       const InstallationPaths& installation) {
  const std::string name = region.at("name").get<std::string>();
  const fs::path folder = model.folder / "tasks" / name, sources = model.folder / "source";
  Imported made;
  try {
    if (region.contains("match")) return known_task(region, model, installation_of(installation).tasks);
    fs::create_directories(folder);
    const std::string file = (sources / region.at("file").get<std::string>()).string() + ":build";
    made.told = run_import_program({.subject = name,
                                    .arguments = {"--out", folder.string(), "--name", name, file},
                                    .readable = {sources},
                                    .writable = {folder},
                                    .quiet = true},
                                   interpreter, installation);
    if (made.told.contains("refused")) {
      made.refused = made.told.value("refused", "") + " " + made.told.value("remedy", "");
    } else if (!made.told.value("changes", json::array()).empty()) {
      made.refused = "It changes its inputs in place.";
    } else if (!fs::exists(folder / (model.device == "cpu" ? "seeds/naive.cpp" : "seeds/cuda_naive.cu"))) {
      made.refused = "No kernel could be derived from it, so a search has no seed.";
    } else {
      for (const json& control :
           drop_unnoticed(folder, installation, model.python, made.told.value("task_yaml", json::object())))
        if (control.value("serious", false))
          made.refused =
              "The checks accept a wrong kernel, with this mistake: " + control.value("about", "") + ".";
      // The sizes of the model, unless a run of them is too short to be timed by itself.
      const bool shorter = model.device == "cpu" && region.at("call_ms").get<double>() < kShortestMs;
      const Task task = load_task(folder);
      made.workloads = shorter && task.workloads("cpu_quick") != nullptr ? "cpu_quick" : "example";
    }
  } catch (const std::runtime_error& error) {
    made.refused = error.what();
  }
  if (!made.refused.empty()) fs::remove_all(folder);
  return made;
}

std::string campaign_text(const ModelImport& model, const json& profile,
                          const std::map<std::string, Imported>& imported) {
  std::string text = fmt::format(
      "# What to make faster in {}, by `cultivar import`: a suite (configs/README.md) with a ranking.\n"
      "#   cultivar optimise {}      # searches where most can be gained; the same command continues\n"
      "#   cultivar apply {} --out fast\n"
      "# To let a language model write kernels, add models and operators to `common`.\n"
      "name: {}\n"
      "common:\n"
      "  target: {}\n"
      "  evaluation: {{python: {}{}}}\n"
      "budget: {{wall: {}}}  # of all searches together\n"
      "# Milliseconds of all calls of a region in one pass of the model, by themselves, and what the machine "
      "needs at least;\n"
      "# call_ms: of one call, with which a kernel of an installed task is compared.\n"
      "ranking:\n",
      model.source.filename().string() + model.within, shell_word(as_typed(model.folder)),
      shell_word(as_typed(model.folder)), json_text(model.folder.filename().string()), model.device,
      json_text(model.python),
      model.device == "cpu" ? fmt::format(", cores: {}", profile.at("threads").get<int>()) : "",
      model.budget);
  std::string tasks, refused;
  for (const json& region : profile.at("regions")) {
    const std::string name = region.at("name").get<std::string>();
    const Imported& made = imported.at(name);
    if (!made.refused.empty()) {
      refused += fmt::format("  {}: {}\n", name, json_text(plain_line(made.refused, 400)));
      continue;
    }
    text += fmt::format("  {}: {{ms: {:.4g}, alone_ms: {:.4g}, floor_ms: {:.4g}{}}}\n", name,
                        region.at("ms").get<double>(), region.at("alone_ms").get<double>(),
                        region.at("floor_ms").get<double>(),
                        made.call_ms > 0.0 ? fmt::format(", call_ms: {:.4g}", made.call_ms) : "");
    tasks += fmt::format("  - {{name: {}, task: ./tasks/{}, workloads: {}{}}}\n", name, name, made.workloads,
                         made.call_ms > 0.0 ? "" : ", contenders: [torch_eager, torch_compile]");
  }
  text += "# Contenders run the model's files outside of the sandbox.\ntasks:\n" + tasks;
  return refused.empty() ? text : text + "refused:\n" + refused;
}

}  // namespace

std::vector<Target> model_devices() {
  std::vector<Target> devices;
  for (const Target target : targets())
    if (target->exporter && target->in_pytorch) devices.push_back(target);
  return devices;
}

int import_model(const ModelImport& model) {
  const Output output(model.as_json);
  if (!model.as_json) notify("starting {}, which takes PyTorch some seconds\n", model.python);
  const bool card = !target_named(model.device)->on_host;
  if (card && !Sandbox().usable())
    notify("Warning: without bubblewrap the model's files run unconfined on a GPU ({})\n",
           Sandbox().obstacle());
  const InstallationPaths installation = find_installation();
  const auto interpreter = find_interpreter(model.python, PythonNeeds::torch);
  if (!interpreter) throw MissingError(interpreter.error().message);
  ImportCall call{
      .subject = model.source.string(),
      .arguments = {"--out", model.folder.string(), "--threads", std::to_string(model.threads), "--least",
                    fmt::format("{:g}", model.least), "--regions", std::to_string(model.regions), "--device",
                    model.device, "--tasks", installation_of(installation).tasks.string()},
      .readable = {model.source.parent_path(), installation_of(installation).tasks},
      .writable = {model.folder},
      .quiet = model.as_json,
      .card = card};
  if (!model.autotune) call.arguments.emplace_back("--no-autotune");
  if (model.known) call.arguments.emplace_back("--known");
  std::string inputs = model.inputs;
  if (const std::size_t end = inputs.find(".py"); end != std::string::npos) {
    const fs::path whole = fs::absolute(inputs.substr(0, end + 3)).lexically_normal();
    if (!fs::exists(whole)) throw InputError(fmt::format("--inputs {}: there is no such file", inputs));
    call.readable.push_back(whole.parent_path());
    inputs = whole.string() + inputs.substr(end + 3);
  }
  call.arguments.insert(call.arguments.end(), {"--inputs", inputs, model.source.string() + model.within});
  const json told = run_import_program(call, *interpreter, installation);
  if (told.contains("refused")) {
    output.facts(told);
    fs::remove_all(model.folder);
    notify("cultivar import: {}: {} {}\n", model.source.string() + model.within,
           plain_text(told.value("refused", "")), plain_text(told.value("remedy", "")));
    return 1;
  }
  std::map<std::string, Imported> imported;
  json regions = json::object();
  int tasks = 0;
  for (const json& region : told.at("regions")) {
    const std::string name = region.at("name").get<std::string>();
    if (!model.as_json) notify("task {}\n", name);
    Imported made = import_region(region, model, *interpreter, installation);
    if (made.refused.empty()) {
      ++tasks;
      if (!region.contains("match")) regions[name] = {{"inputs", made.told.at("inputs")}};
    } else if (!model.as_json) {
      notify("  it becomes no task: {}\n", plain_line(made.refused, 300));
    }
    imported.emplace(name, std::move(made));
  }
  write_file(model.folder / "regions.json", json_text(regions, 1) + "\n");
  if (tasks > 0) write_file(model.folder / "campaign.yaml", campaign_text(model, told, imported));

  json facts = told;
  facts["tasks"] = tasks;
  for (json& region : facts["regions"])
    region["refused"] = imported.at(region.at("name").get<std::string>()).refused;
  output.facts(facts);
  Table table(told.at("table").at(0).get<std::vector<std::string>>());
  for (std::size_t i = 1; i < told.at("table").size(); ++i)
    table.row(told.at("table").at(i).get<std::vector<std::string>>());
  const std::string typed = as_typed(model.folder);
  output.line(fmt::format("{}\n\n{}", told.value("report", ""), table.text()));
  output.line(fmt::format("The same with a picture: {0}/profile.md, {0}/profile.svg", typed));
  for (const auto& [name, made] : imported)
    if (!made.refused.empty())
      output.line(fmt::format("{} becomes no task: {}", name, plain_line(made.refused, 300)));
  if (tasks == 0) {
    output.line(told.at("regions").empty()
                    ? "There is nothing to optimise."
                    : "No region could become a task, so there is nothing to optimise.");
    return 0;
  }
  const std::string cultivar = called_as();
  Table next({"", ""});
  next.row({fmt::format("{} optimise {}", cultivar, shell_word(typed)),
            fmt::format("searches, for {}; the same command continues", model.budget)});
  next.row({fmt::format("{} apply {} --out fast", cultivar, shell_word(typed)),
            "puts the kernels back, and proves it on the whole model"});
  output.line("\n" + next.text("  "));
  return 0;
}

}  // namespace cultivar
