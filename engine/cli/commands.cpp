// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/commands.hpp"
#include "engine/cli/output.hpp"

#include <fmt/format.h>
#include <sqlite3.h>

#include <cstdlib>
#include <exception>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "engine/cli/installation_paths.hpp"
#include "engine/store/rows.hpp"
#include "engine/store/schema.hpp"
#include "evaluators/system/clock.hpp"
#include "evaluators/system/error.hpp"
#include "evaluators/system/foreign_json.hpp"
#include "evaluators/system/memory_limit.hpp"
#include "evaluators/system/plain_text.hpp"
#include "evaluators/yaml/nearest_name.hpp"

namespace cultivar {
namespace fs = std::filesystem;
namespace {

constexpr Command table[] = {
    {"run", "start a search from a configuration", run_command},
    {"resume", "resume a stopped search", resume_command},
    {"suite", "search several tasks in turn, and make one table", suite_command},
    {"optimise", "search the regions of a model, where most can be gained", optimise_command},
    {"apply", "put a model's kernels into it, and prove it", apply_command},
    {"attach", "follow a search that runs without a terminal", attach_command},
    {"stop", "stop a running search with a checkpoint", stop_command},
    {"runs", "list the runs and their state", runs_command},
    {"status", "show the state of a search", status_command},
    {"dashboard", "show runs as a live page for a browser", dashboard_command},
    {"show", "show one individual: source, evaluation, lineage", show_command},
    {"lineage", "show which kernels were derived from which", lineage_command},
    {"report", "write a run's history as a Markdown page with a chart", report_command},
    {"submit", "put a hand-written variant into a search", submit_command},
    {"gc", "make a run's record smaller, without losing its history", gc_command},
    {"portfolio", "find kernels that beat the best on some workloads", portfolio_command},
    {"export", "export the best kernel as a ready-to-use project", export_command},
    {"evaluate", "check and time variants outside a search", evaluate_command},
    {"compare", "test whether one variant is faster than another", compare_command},
    {"profile", "show a variant's bottlenecks and where they are", profile_command},
    {"tasks", "list the tasks that can be searched", tasks_command},
    {"import", "make a task of a PyTorch function or model", import_command},
    {"new", "write the folder of a new task, or a new seed", new_command},
    {"replay", "recompute every decision of a run from its record", replay_command},
    {"mcp", "offer a run or a task to a coding agent", mcp_command},
    {"completion", "complete commands in a shell, and manual pages", completion_command},
    {"doctor", "check what this machine supports and what is missing", doctor_command},
};

// Commands of the launcher, which sets CULTIVAR_COMMAND. An installed program does not have them.
constexpr std::pair<const char*, const char*> of_the_launcher[] = {
    {"test", "build and run the whole test suite"},
    {"setup", "only install and build"},
    {"package", "build a Debian package of the programs"},
};

bool launched() {
  return std::getenv("CULTIVAR_COMMAND") != nullptr;
}

void print_help(std::FILE* out) {
  fmt::print(
      out, "{}\n\nUsage: cultivar COMMAND ...\n\nCommands:\n",
      wrapped("Cultivar improves compute kernels by evolutionary search: it changes, checks, times and "
              "selects them.",
              columns_of(out), ""));
  for (const Command& command : table) fmt::print(out, "  {:<10} {}\n", command.name, command.about);
  if (launched())
    for (const auto& [name, about] : of_the_launcher) fmt::print(out, "  {:<10} {}\n", name, about);
  fmt::print(out,
             "\n`cultivar COMMAND --help` describes a command and shows an example.\n\n"
             "Start here:\n  cultivar run configs/quickstart.yaml\n");
}

// The record of the run that an argument names; run.db if none does.
fs::path record_named_in(const Arguments& arguments) {
  for (const std::string& word : arguments) {
    try {
      const auto kernel = split_run_and_id(word);
      return find_run(find_installation(), kernel ? kernel->first : word) / "run.db";
    } catch (const std::exception&) {
      continue;  // it names something else
    }
  }
  return "run.db";
}

int after_all_is_written(int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  notify("cultivar: some output could not be written to stdout\n");
  return code == 0 ? 1 : code;
}

}  // namespace

std::span<const Command> commands() {
  return table;
}

int cultivar_main(const Arguments& arguments) {
  notice_stops();
  raise_open_files();
  if (arguments.empty()) {
    print_help(stderr);
    return 2;
  }
  std::string name = arguments.front();
  Arguments rest(arguments.begin() + 1, arguments.end());
  if (name == "help" && !rest.empty()) {
    name = rest.front();
    rest = {"--help"};
  }
  if (name == "--help" || name == "-h" || name == "help") {
    print_help(stdout);
    return 0;
  }
  if (name == "--version") {
    fmt::print("cultivar {}\n", CULTIVAR_VERSION);
    return 0;
  }
  for (const Command& command : table) {
    if (command.name != name) continue;
    const auto complain = [&](std::string_view words) {
      if (words.starts_with(name + ": "))
        words.remove_prefix(name.size() + 2);  // the command's name is printed below
      notify("cultivar {}: {}\n", name, utf8_text(words));
    };
    const auto unreadable = [&](const std::string& why) {
      const fs::path record = record_named_in(rest);
      if (!record.has_parent_path()) return complain(why);
      complain(fmt::format(
          "{} holds something that this program cannot read ({}): it is damaged, or was written by another "
          "version of Cultivar. Older copies are in {}: put the newest good one in its place, without "
          "run.db-wal and run.db-shm beside it, then resume",
          record.string(), why, (record.parent_path() / "checkpoints").string()));
    };
    try {
      return after_all_is_written(command.run(rest));
    } catch (const SQLite::Exception& error) {
      if (error.getErrorCode() == SQLITE_ERROR)  // of a value, such as malformed JSON
        unreadable(error.what());
      else
        complain(trouble(error, name, record_named_in(rest)).message);
      return 1;
    } catch (const InconsistentRecord& error) {
      unreadable(error.what());
      return 1;
    } catch (const nlohmann::json::exception& error) {
      unreadable(said_shortly(error));
      return 1;
    } catch (const std::logic_error& error) {  // what the library says of a value that should not be
      unreadable(error.what());
      return 1;
    } catch (const InputError& error) {
      complain(error.what());
      return 2;
    } catch (const MissingError& error) {
      complain(error.what());
      return 3;
    } catch (const InterruptedError& error) {
      complain(error.what());
      return 130;
    } catch (const std::exception& error) {
      complain(error.what());
      return 1;
    }
  }
  std::vector<std::string> names{"help"};
  if (launched())
    for (const auto& [known, about] : of_the_launcher) names.emplace_back(known);
  for (const Command& command : table) names.emplace_back(command.name);
  const std::string near = nearest_name(name, names);
  notify("cultivar: there is no command '{}'{}\n`cultivar --help` lists all commands.\n", name,
         near.empty() ? "" : fmt::format(" (did you mean {}?)", near));
  return 2;
}

}  // namespace cultivar
