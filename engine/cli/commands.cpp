#include "engine/cli/commands.hpp"
#include "engine/cli/output.hpp"

#include <fmt/format.h>

#include <exception>
#include <nlohmann/json.hpp>

#include "engine/store/trouble.hpp"
#include "evaluators/error.hpp"
#include "evaluators/foreign_json.hpp"
#include "evaluators/yaml/nearest_name.hpp"

namespace cultivar {
namespace {

constexpr Command table[] = {
    {"run", "start a search from a configuration", run_command},
    {"resume", "go on with a stopped search", resume_command},
    {"status", "how a search is doing", status_command},
    {"show", "one individual: source, evaluation, descent", show_command},
    {"lineage", "what came from what", lineage_command},
    {"report", "a run as a page: its course as a picture, what each step gave", report_command},
    {"submit", "put a hand-written variant into a search", submit_command},
    {"export", "the best kernel as a ready-to-use project", export_command},
    {"evaluate", "check and time variants outside a search", evaluate_command},
    {"compare", "let the gate decide between two variants", compare_command},
    {"profile", "what a variant runs into, and where", profile_command},
    {"tasks", "what can be searched for", tasks_command},
    {"replay", "make every decision of a run again from its record", replay_command},
    {"mcp", "offer a run or a task to a coding agent", mcp_command},
    {"doctor", "what this machine offers, and what is missing", doctor_command},
};

void print_help(std::FILE* out) {
  fmt::print(out,
             "Cultivar breeds compute kernels: it changes, checks, times and selects them for days.\n\n"
             "Usage: cultivar COMMAND ...\n\nCommands:\n");
  for (const Command& command : table) fmt::print(out, "  {:<10} {}\n", command.name, command.about);
  fmt::print(out, "  {:<10} {}\n  {:<10} {}\n", "test", "build and run the whole test suite", "setup",
             "install and build only");
  fmt::print(out,
             "\n`cultivar COMMAND --help` explains a command and gives an example.\n\n"
             "Start here:\n  cultivar run configs/quickstart.yaml\n");
}

int after_all_is_written(int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  notify("cultivar: not everything could be written to the standard output\n");
  return code == 0 ? 1 : code;
}

}  // namespace

std::span<const Command> commands() {
  return table;
}

int cultivar_main(const Arguments& arguments) {
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
      if (words.starts_with(name + ": ")) words.remove_prefix(name.size() + 2);  // what failed is the command
      notify("cultivar {}: {}\n", name, words);
    };
    try {
      return after_all_is_written(command.run(rest));
    } catch (const SQLite::Exception& error) {
      complain(trouble(error, name, "run.db").message);
      return 1;
    } catch (const nlohmann::json::exception& error) {
      notify(
          "cultivar {}: the record holds something that this program cannot read ({}): it is damaged, or of "
          "another version of Cultivar. Its folder `checkpoints` holds older copies\n",
          name, said_shortly(error));
      return 1;
    } catch (const InputError& error) {
      complain(error.what());
      return 2;
    } catch (const MissingError& error) {
      complain(error.what());
      return 3;
    } catch (const std::exception& error) {
      complain(error.what());
      return 1;
    }
  }
  std::vector<std::string> names{"test", "setup", "help"};
  for (const Command& command : table) names.emplace_back(command.name);
  const std::string near = nearest_name(name, names);
  notify("cultivar: there is no command '{}'{}\n`cultivar --help` lists all.\n", name,
         near.empty() ? "" : fmt::format(" (did you mean {}?)", near));
  return 2;
}

}  // namespace cultivar
