// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "engine/cli/commands.hpp"
#include "engine/cli/installation_paths.hpp"
#include "engine/cli/options.hpp"
#include "engine/cli/suite_session.hpp"
#include "engine/config/duration.hpp"
#include "evaluators/system/error.hpp"
#include "evaluators/system/plain_text.hpp"

namespace cultivar {

int suite_command(const Arguments& arguments) {
  SuiteCall call;
  std::string turn;
  Options options(
      "suite",
      "Searches several tasks in turn, each with its own budget, and makes one table of the best kernels, "
      "beside their rivals. Ctrl-C stops with a checkpoint; the same command resumes. A task that fails does "
      "not end the suite.",
      "cultivar suite configs/cpu_suite.yaml");
  options.argument("FILE", call.file, "the suite (configs/README.md), or an installed one's name");
  options.option("--run-dir", call.run_dir,
                 "the folder for the table and the runs (default: runs/ and the suite's name)");
  options.each("--only", call.only, "search only the task of this name; the table shows all");
  options.each(
      "--set", call.overrides,
      "a.b=c: replace one value of every task's configuration; of a search that has begun, settings of "
      "its evaluation, as `cultivar resume --set` can change them");
  options.option("--turn", turn,
                 "searches take turns of this length, for example 1m, until each has used its budget or only "
                 "waits for answers in mailboxes; those go on when the same command is given after answers");
  options.flag("--table", call.only_table, "only make the table of what is recorded so far");
  options.flag("--check", call.only_check,
               "only check the suite, its tasks and seeds; run and write nothing");
  options.flag("--trust", call.trust,
               "run the programs that resumed records name: see `cultivar resume --help`");
  options.flag("--verbose", call.verbose, "print a line for every individual");
  options.flag("--json", call.as_json, "print the table as JSON on stdout");
  if (const auto code = options.parse(arguments)) return *code;

  const std::optional<double> turn_s = turn.empty() ? 0.0 : duration_seconds(turn);
  if (!turn_s || (*turn_s <= 0.0 && !turn.empty()))
    throw InputError(fmt::format("--turn {}: write a duration, such as 60s or 2m", turn));
  call.turn_s = *turn_s;
  call.again = fmt::format("{} suite {}", called_as(), shell_word(call.file));
  if (!call.run_dir.empty()) call.again += " --run-dir " + shell_word(call.run_dir);
  for (const std::string& name : call.only) call.again += " --only " + shell_word(name);
  if (!turn.empty()) call.again += " --turn " + shell_word(turn);
  for (const std::string& value : call.overrides) call.again += " --set " + shell_word(value);
  return suite_session(call);
}

}  // namespace cultivar
