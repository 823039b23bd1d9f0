// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/import_program.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <set>

#include "embedded/import_python.hpp"
#include "engine/cli/output.hpp"
#include "evaluators/check/open_reference.hpp"
#include "evaluators/judge/controls.hpp"
#include "evaluators/references/python/python_reference.hpp"
#include "evaluators/system/error.hpp"
#include "evaluators/system/files.hpp"
#include "evaluators/system/plain_text.hpp"
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

}  // namespace cultivar
