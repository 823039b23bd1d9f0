// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/commands.hpp"
#include "engine/cli/output.hpp"

#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "engine/cli/installation_paths.hpp"
#include "engine/store/rows.hpp"
#include "engine/store/schema.hpp"
#include "evaluators/system/clock.hpp"
#include "evaluators/system/error.hpp"
#include "evaluators/system/json_text.hpp"
#include "evaluators/system/memory_limit.hpp"
#include "evaluators/system/plain_text.hpp"
#include "evaluators/yaml/nearest_name.hpp"

namespace cultivar {
namespace {

// Text of a page.
std::string roff(const std::string& words) {
  constexpr std::size_t kColumns = 72;
  std::string result;
  for (const char c : words.find('\n') == std::string::npos ? wrapped(words, kColumns, "") : words) {
    const bool begins = result.empty() || result.back() == '\n';
    if (c == '\\')
      result += "\\e";
    else if (c == '-')
      result += "\\-";
    else if (c == '`')
      result += "\\(aq";
    else if (begins && (c == '.' || c == '\''))
      result += std::string("\\&") + c;
    else if (c == '\n' && begins)
      result += ".PP\n";
    else
      result += c;
  }
  return result;
}

// "2026-11-30" of "Nov 30 2026".
std::string date_of_build() {
  constexpr std::string_view built = __DATE__, months = "JanFebMarAprMayJunJulAugSepOctNovDec";
  std::string date = fmt::format("{}-{:02}-{}", built.substr(7), months.find(built.substr(0, 3)) / 3 + 1,
                                 built.substr(4, 2));
  std::ranges::replace(date, ' ', '0');
  return date;
}

std::string title(const std::string& name) {
  return fmt::format(".TH \"{}\" 1 \"{}\" \"cultivar {}\" \"User Commands\"\n", name, date_of_build(),
                     CULTIVAR_VERSION);
}

std::string usage_of(const CommandDefinition& d) {
  std::string text = "\\fBcultivar " + roff(d.name) + "\\fR";
  for (const CommandDefinition::Word& a : d.arguments)
    text += fmt::format(" {}\\fI{}\\fR{}{}", a.required ? "" : "[", roff(a.name), a.many ? "..." : "",
                        a.required ? "" : "]");
  return text + " [\\fIOPTION\\fR...]\n";
}

std::string item(const std::string& what, const std::string& about) {
  return fmt::format(".TP\n{}\n{}\n", what, roff(about));
}

std::string words_of(const CommandDefinition& d) {
  std::string text;
  for (const CommandDefinition::Word& a : d.arguments) text += item("\\fI" + roff(a.name) + "\\fR", a.about);
  for (const CommandDefinition::Word& option : d.options)
    text += item(fmt::format("\\fB{}\\fR{}", roff(option.name), option.value ? " \\fIVALUE\\fR" : ""),
                 option.about);
  return text + item("\\fB\\-\\-help\\fR", "show the help");
}

std::string example(const std::string& words) {
  return ".PP\n.nf\n" + roff(words) + "\n.fi\n";
}

std::string what_all_have() {
  return ".SH EXIT STATUS\n" + item("0", "done") +
         item("1", "the work failed, or no kernel passed every check") +
         item("2", "bad usage or configuration") + item("3", "something needed is missing") +
         item("130", "interrupted: a search has written a checkpoint and can be resumed") +
         ".SH ENVIRONMENT\n" +
         item("\\fBCULTIVAR_CACHE\\fR",
              "the folder for compiled kernels; by default cultivar in $XDG_CACHE_HOME or in .cache of "
              "the home folder, and .cache of the source folder for a program that lies in one") +
         item("\\fBTZ\\fR", "the time zone of the times that are shown") +
         item("\\fBLC_ALL\\fR, \\fBLC_CTYPE\\fR, \\fBLANG\\fR",
              "whether a live view may use characters beyond ASCII") +
         item("\\fBTERM\\fR", "with the value dumb, nothing is redrawn: a search prints plain lines") +
         item("\\fBNO_COLOR\\fR", "is kept in any case: no command prints colors") +
         item("\\fBCUDA_VISIBLE_DEVICES\\fR", "the GPUs that a search may use") +
         ".PP\nA key of a language model is read from the variable that the\nconfiguration names "
         "(api_key_env).\n";
}

}  // namespace

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

std::string manual_of_program(const std::vector<DefinedCommand>& all) {
  std::string text =
      title("CULTIVAR") +
      ".SH NAME\ncultivar \\- evolves compute kernels\n"
      ".SH SYNOPSIS\n\\fBcultivar\\fR \\fICOMMAND\\fR [\\fIARGUMENT\\fR...]\n.SH DESCRIPTION\n"
      "Improves compute kernels by evolutionary search:\nit changes, checks, times and selects them.\nA "
      "search writes its record into a folder, a run, which all other commands read.\n"
      ".SH COMMANDS\n";
  for (const auto& [summary, d] : all)
    text += fmt::format(".SS {}\n{}.PP\n{}\n{}", roff(d.name), usage_of(d), roff(d.about), words_of(d));
  text += what_all_have() + ".SH FILES\n" +
          item("\\fIruns/NAME\\fR",
               "the run of the search of that name: its record (run.db) and its exported kernel") +
          ".SH EXAMPLES\n";
  for (const auto& [summary, d] : all) text += fmt::format("To {}:\n", roff(summary)) + example(d.example);
  text += ".SH SEE ALSO\n";
  for (std::size_t i = 0; i < all.size(); ++i)
    text +=
        fmt::format(".BR cultivar\\-{} (1){}\n", roff(all[i].definition.name), i + 1 < all.size() ? "," : "");
  return text;
}

std::string manual_of(const DefinedCommand& command) {
  const CommandDefinition& d = command.definition;
  std::string upper = "CULTIVAR\\-";
  for (const char c : d.name) upper += static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return title(upper) +
         fmt::format(".SH NAME\ncultivar\\-{} \\- {}\n.SH SYNOPSIS\n{}.SH DESCRIPTION\n{}\n.SH OPTIONS\n{}",
                     roff(d.name), roff(command.summary), usage_of(d), roff(d.about), words_of(d)) +
         what_all_have() + ".SH EXAMPLES\n" + example(d.example).substr(std::string(".PP\n").size()) +
         ".SH SEE ALSO\n.BR cultivar (1)\n";
}

}  // namespace cultivar
