// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/cli/commands.hpp"
#include "engine/cli/import_program.hpp"
#include "engine/cli/installation_paths.hpp"
#include "engine/cli/options.hpp"
#include "engine/cli/output.hpp"
#include "engine/config/duration.hpp"
#include "evaluators/system/error.hpp"
#include "evaluators/system/files.hpp"
#include "evaluators/system/interpreter.hpp"
#include "evaluators/system/plain_text.hpp"
#include "evaluators/target/traits.hpp"
#include "evaluators/task/task.hpp"

namespace cultivar {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// A first search, with the interpreter that the reference needs.
void write_search(const fs::path& folder, const Task& task, const Interpreter& python) {
  if (!fs::exists(folder / "seeds/naive.cpp") || task.workloads("cpu_quick") == nullptr) return;
  std::string for_gpu = "cuda_naive";
  for (const char* of_compile : {"triton_inductor", "triton_inductor_rows"})
    if (fs::exists(folder / "seeds" / (std::string(of_compile) + ".py")))
      for_gpu += std::string(", ") + of_compile;
  const std::string text = fmt::format(
      "# A search on this machine's cores: `cultivar run search.yaml`. For a GPU: target cuda, workloads "
      "gpu, holdout\n"
      "# holdout, seeds [{}].\n"
      "name: {}\ntask: .\ntarget: cpu\nworkloads: cpu_quick\n{}seeds: [naive]\n"
      "{}evaluation: {{python: {}}}\nbudget: {{wall: 10m}}\n",
      for_gpu, task.name, task.workloads("cpu_holdout") == nullptr ? "" : "holdout: cpu_holdout\n",
      fs::exists(folder / "contenders/torch_eager.py")
          ? "contenders: [torch_eager]  # runs the file outside of the sandbox\n"
          : "",
      python.executable);
  if (const auto written = write_if_missing(folder / "search.yaml", text); !written)
    throw std::runtime_error(written.error().message);
}

void print_next_steps(const Output& output, const fs::path& folder, const json& told) {
  const std::string cultivar = called_as();
  std::string typed = as_typed(folder);
  if (typed.find('/') == std::string::npos) typed = "./" + typed;  // not an installed task of that name
  Table next({"", ""});
  next.row({fmt::format("{} tasks {}", cultivar, typed), "explains the task"});
  if (fs::exists(folder / "seeds/naive.cpp"))
    next.row({fmt::format("{} evaluate {} {}/seeds/naive.cpp", cultivar, typed, typed),
              "checks and times a seed"});
  if (fs::exists(folder / "search.yaml"))
    next.row({fmt::format("{} run {}/search.yaml", cultivar, typed), "searches"});
  output.line(fmt::format("\n{}\n{}", told.value("report", ""), next.text("  ")));
}

}  // namespace

int import_command(const Arguments& arguments) {
  std::string file, out, name, python = default_python(), checkout, problems = "1-100", budget = "10m";
  std::vector<std::string> devices;
  for (const Target target : model_devices()) devices.push_back(name_of(target));
  std::string inputs, device = devices.front(), architecture = "sm_90a";
  int level = 1, threads = 0, regions = 6;
  double memory_factor = 1.0, limit_s = 60.0, least = 0.02;
  bool as_json = false, known = false, no_autotune = false;
  Options options(
      "import",
      "Makes a task of a PyTorch function, an nn.Module or a KernelBench file: what it computes "
      "becomes the reference, its shapes the workloads, its graph naive seeds in C++ and CUDA C++, and the "
      "kernels in Triton that torch.compile generates for it further ones. Says in words what it assumed, "
      "and refuses what cannot be checked. With --inputs the file is a whole model, which "
      "is profiled, and whose regions become the tasks of a campaign. The file runs in a sandbox, a "
      "single task's on the cpu.",
      "cultivar import model.py:GroupNormSwish --out group_norm_swish --python venv/bin/python");
  options.optional_argument("FILE", file, "FILE.py, or FILE.py:NAME for a function or class of it");
  options.option("--out", out, "the folder of the new task, or of the tasks of --kernelbench");
  options.option("--name", name, "the name of the task; by default that of the function or class");
  options.option("--python", python, "an interpreter with PyTorch and numpy");
  options.option(
      "--arch", architecture,
      "of the GPU for which torch.compile generates seeds (none is needed here); none: no such seeds");
  options.option("--inputs", inputs,
                 "FILE.py:NAME is a whole model (a function without arguments that returns a module, or a "
                 "module); its inputs are drawn by this function of the file, or by FILE.py:NAME of another");
  options.option("--device", device,
                 fmt::format("of a whole model and its kernels: {}", fmt::join(devices, " or ")));
  options.option("--threads", threads, "of a whole model and its kernels; 0: all cores");
  options.flag("--known", known,
               "of a whole model: only functions of PyTorch that an installed task computes; no new tasks");
  options.flag(
      "--no-autotune", no_autotune,
      "of a whole model on a GPU: not beside torch.compile with max-autotune, which compiles for minutes");
  options.option("--least", least, "of a whole model: the share of its time that a region must promise");
  options.option("--regions", regions, "of a whole model: the most tasks");
  options.option("--kernelbench", checkout, "import problems of this checkout of KernelBench");
  options.option("--level", level, "of KernelBench");
  options.option("--problems", problems, "of KernelBench, such as 1-100 or 1,5,7-9");
  options.option("--memory-factor", memory_factor, "timed sizes need this share of the example's memory");
  options.option(
      "--budget", budget,
      "the wall time of each search in the suites of KernelBench (gpu_suite.yaml, cpu_suite.yaml); of a "
      "whole model, of all searches together");
  options.option("--limit", limit_s, "seconds for each problem of KernelBench");
  options.flag("--json", as_json, "print the result as JSON on stdout");
  if (const auto code = options.parse(arguments)) return *code;
  if (file.empty() == checkout.empty())
    throw InputError("name either FILE.py (with :NAME for one of its functions) or --kernelbench CHECKOUT");
  if (out.empty()) throw InputError("name the new folder with --out FOLDER");

  fs::path source = checkout.empty() ? fs::path(file) : fs::path(checkout);
  std::string within;  // ":NAME"
  std::error_code none;
  if (checkout.empty() && !fs::exists(source, none))
    if (const std::size_t colon = file.rfind(':'); colon != std::string::npos) {
      source = file.substr(0, colon);
      within = file.substr(colon);
    }
  if (!fs::exists(source, none))
    throw InputError(
        fmt::format("{}: there is no such {}", source.string(), checkout.empty() ? "file" : "folder"));
  const fs::path folder = fs::absolute(out).lexically_normal();
  if (fs::exists(folder, none) && !fs::is_empty(folder, none) && checkout.empty())
    throw InputError(fmt::format("{} exists and is not empty (name a new folder with --out)", out));
  if (!inputs.empty() && !checkout.empty())
    throw InputError("--inputs is for FILE.py: a problem of KernelBench has its own");
  if (std::ranges::find(devices, device) == devices.end())
    throw InputError(fmt::format("--device {}: {}", device, fmt::join(devices, " or ")));
  if (inputs.empty() && device != devices.front())
    throw InputError("--device is of a whole model (--inputs); a task is for every target");
  for (const Target target : targets())
    if (architecture != "none" && target->architectures != nullptr)
      if (const std::string trouble = target->architectures->trouble(architecture); !trouble.empty())
        throw InputError("--arch: " + trouble);
  if (!duration_seconds(budget))
    throw InputError(fmt::format("--budget {}: write a duration, such as 90s or 10m", budget));
  fs::create_directories(folder, none);
  if (!fs::is_directory(folder, none)) throw InputError(fmt::format("{} cannot be created", folder.string()));
  if (!inputs.empty())
    return import_model({.source = fs::absolute(source).lexically_normal(),
                         .within = within,
                         .inputs = inputs,
                         .folder = folder,
                         .device = device,
                         .python = python,
                         .budget = budget,
                         .threads = threads,
                         .regions = regions,
                         .least = least,
                         .known = known,
                         .autotune = !no_autotune,
                         .as_json = as_json});

  if (!as_json) notify("starting {}, which takes PyTorch some seconds\n", python);
  const InstallationPaths installation = find_installation();
  auto interpreter = find_interpreter(python, PythonNeeds::torch);
  if (!interpreter) throw MissingError(interpreter.error().message);
  source = fs::absolute(source).lexically_normal();
  ImportCall call{.subject = source.string(),
                  .arguments = {"--out", folder.string()},
                  .readable = {checkout.empty() ? source.parent_path() : source},
                  .writable = {folder},
                  .quiet = as_json};
  const auto add = [&](const std::string& option, const std::string& value) {
    call.arguments.push_back(option);
    call.arguments.push_back(value);
  };
  if (!name.empty()) add("--name", name);
  add("--memory-factor", fmt::format("{:g}", memory_factor));
  if (checkout.empty()) {
    if (architecture != "none") add("--arch", architecture);
    call.arguments.push_back(source.string() + within);
  } else {
    add("--kernelbench", source.string());
    add("--level", std::to_string(level));
    add("--problems", problems);
    add("--budget", budget);
    add("--limit", fmt::format("{:g}", limit_s));
  }
  json told;
  try {
    told = run_import_program(call, *interpreter, installation);
  } catch (const std::runtime_error&) {
    fs::remove(folder, none);  // only if nothing was written
    throw;
  }
  const Output output(as_json);
  if (told.contains("refused")) {
    output.facts(told);
    fs::remove(folder, none);
    notify("cultivar import: {}: {} {}\n", source.string() + within, plain_text(told.value("refused", "")),
           plain_text(told.value("remedy", "")));
    return 1;
  }
  if (!checkout.empty()) {
    output.facts(told);
    output.line(told.value("report", ""));
    return 0;
  }
  if (!as_json) notify("mistakes in the function, by the judge's comparison\n");
  const json parts = told.value("task_yaml", json::object());
  told.erase("task_yaml");
  const std::vector<json> dropped = drop_unnoticed(folder, installation, python, parts);
  std::vector<std::string> names;
  std::string serious, small;
  for (const json& control : dropped) {
    names.push_back(control.value("name", ""));
    (control.value("serious", false) ? serious : small) +=
        fmt::format("  {} ({})\n", control.value("about", ""), names.back());
  }
  if (!serious.empty()) {
    output.facts({{"refused", "the checks accept a wrong kernel"}, {"controls", names}});
    notify(
        "cultivar import: {}: a kernel with one of these mistakes would be accepted, because on every check "
        "shape it changes the outputs by less than their permitted error:\n{}"
        "Choose example inputs on which these operations matter. The task is in {}, without these "
        "controls.\n",
        source.string() + within, plain_text(serious), folder.string());
    return 1;
  }
  write_search(folder, load_task(folder), *interpreter);
  told["not_told_apart"] = names;
  output.facts(told);
  print_next_steps(output, folder, told);
  output.line(fmt::format(
      "\nThe file runs in a sandbox, now and as the reference. Its contenders (torch_eager, torch_compile) "
      "run outside of it, as all contenders do: use them only with a file that you trust."));
  if (!small.empty())
    output.line(
        fmt::format("\nThe checks do not notice these mistakes, so they are no controls of the task:\n{}",
                    plain_text(small)));
  return 0;
}

}  // namespace cultivar
