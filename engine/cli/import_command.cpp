// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "embedded/import_python.hpp"
#include "engine/cli/commands.hpp"
#include "engine/cli/installation_paths.hpp"
#include "engine/cli/options.hpp"
#include "engine/cli/output.hpp"
#include "engine/config/duration.hpp"
#include "evaluators/check/open_reference.hpp"
#include "evaluators/judge/controls.hpp"
#include "evaluators/references/python/python_sandbox.hpp"
#include "evaluators/system/error.hpp"
#include "evaluators/system/files.hpp"
#include "evaluators/system/interpreter.hpp"
#include "evaluators/system/plain_text.hpp"
#include "evaluators/task/task.hpp"

namespace cultivar {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

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

// The judge's own comparison must tell each mistake in the function from it. Those that it does not tell are
// left out of the controls in task.yaml.
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

// A first search, with the interpreter that the reference needs.
void write_search(const fs::path& folder, const Task& task, const Interpreter& python) {
  if (!fs::exists(folder / "seeds/naive.cpp") || task.workloads("cpu_quick") == nullptr) return;
  const std::string text = fmt::format(
      "# A search on this machine's cores: `cultivar run search.yaml`. For a GPU: target cuda, workloads "
      "gpu, holdout\n"
      "# holdout, seeds [cuda_naive].\n"
      "name: {}\ntask: .\ntarget: cpu\nworkloads: cpu_quick\n{}seeds: [naive]\n"
      "{}evaluation: {{python: {}}}\nbudget: {{wall: 10m}}\n",
      task.name, task.workloads("cpu_holdout") == nullptr ? "" : "holdout: cpu_holdout\n",
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
  int level = 1;
  double memory_factor = 1.0, limit_s = 60.0;
  bool as_json = false;
  Options options(
      "import",
      "Makes a task of a PyTorch function, an nn.Module or a KernelBench file: what it computes "
      "becomes the reference, its shapes the workloads, its graph two naive seeds. Says in words "
      "what it assumed, and refuses what cannot be checked. The file runs in a sandbox, on the cpu.",
      "cultivar import model.py:GroupNormSwish --out group_norm_swish --python venv/bin/python");
  options.optional_argument("FILE", file, "FILE.py, or FILE.py:NAME for a function or class of it");
  options.option("--out", out, "the folder of the new task, or of the tasks of --kernelbench");
  options.option("--name", name, "the name of the task; by default that of the function or class");
  options.option("--python", python, "an interpreter with PyTorch and numpy");
  options.option("--kernelbench", checkout, "import problems of this checkout of KernelBench");
  options.option("--level", level, "of KernelBench");
  options.option("--problems", problems, "of KernelBench, such as 1-100 or 1,5,7-9");
  options.option("--memory-factor", memory_factor, "timed sizes need this share of the example's memory");
  options.option(
      "--budget", budget,
      "of KernelBench: the wall time of each search in the suites that are written (gpu_suite.yaml, "
      "cpu_suite.yaml)");
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
  fs::create_directories(folder, none);
  if (!fs::is_directory(folder, none)) throw InputError(fmt::format("{} cannot be created", folder.string()));

  if (!as_json) notify("starting {}, which takes PyTorch some seconds\n", python);
  const InstallationPaths installation = find_installation();
  auto interpreter = find_interpreter(python, PythonNeeds::torch);
  if (!interpreter) throw MissingError(interpreter.error().message);
  const auto sources = place_python_files(import_python_files(), installation.cache);
  if (!sources) throw std::runtime_error(sources.error().message);
  source = fs::absolute(source).lexically_normal();
  PythonProgram program{.module = "cultivar_import",
                        .sources = *sources,
                        .readable = {checkout.empty() ? source.parent_path() : source},
                        .writable = {folder}};
  program.arguments = {"--out", folder.string(), "--lines"};
  const auto add = [&](const std::string& option, const std::string& value) {
    program.arguments.push_back(option);
    program.arguments.push_back(value);
  };
  if (!name.empty()) add("--name", name);
  add("--memory-factor", fmt::format("{:g}", memory_factor));
  if (checkout.empty()) {
    program.arguments.push_back(source.string() + within);
  } else {
    add("--kernelbench", source.string());
    add("--level", std::to_string(level));
    add("--problems", problems);
    if (!duration_seconds(budget))
      throw InputError(fmt::format("--budget {}: write a duration, such as 90s or 10m", budget));
    add("--budget", budget);
    add("--limit", fmt::format("{:g}", limit_s));
  }
  ProcessOptions process;
  process.pipe_input = false;
  auto child = start_python(*interpreter, program, std::move(process));
  if (!child) throw std::runtime_error(child.error().message);
  json told = follow(*child, as_json);
  const bool ended = child->wait_or_kill(deadline_in(5.0));

  const Output output(as_json);
  if (!told.is_object()) {
    std::string last = plain_text(child->captured());
    if (last.size() > 600) last = last.substr(last.size() - 600);
    fs::remove(folder, none);  // only if nothing was written
    throw std::runtime_error(
        fmt::format("{} ended the import without a result ({}). {}", source.string(),
                    ended ? child->poll()->describe()
                          : fmt::format("for {:g} s it did nothing that is known: look for a "
                                        "loop that does not end",
                                        kQuietSeconds),
                    last));
  }
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
    const std::string name = control.value("name", ""), about = control.value("about", "");
    names.push_back(name);
    (control.value("serious", false) ? serious : small) += fmt::format("  {} ({})\n", about, name);
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
  output.line(
      fmt::format("\nThe file runs in a sandbox, now and as the reference. Its contenders (torch_eager, "
                  "torch_compile) run outside of "
                  "it, as all contenders do: use them only with a file that you trust."));
  if (!small.empty())
    output.line(
        fmt::format("\nThe checks do not notice these mistakes, so they are no controls of the task:\n{}",
                    plain_text(small)));
  return 0;
}

}  // namespace cultivar
