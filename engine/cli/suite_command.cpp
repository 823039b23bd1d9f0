// SPDX-License-Identifier: Apache-2.0
// The commands `suite` and `optimise`: the searches of a suite, in turns or by a ranking.
#include <fmt/format.h>

#include "engine/cli/commands.hpp"
#include "engine/cli/installation_paths.hpp"
#include "engine/cli/options.hpp"
#include "engine/cli/suite_session.hpp"
#include "engine/config/duration.hpp"
#include "evaluators/system/error.hpp"
#include "evaluators/system/plain_text.hpp"

namespace cultivar {

namespace {

void last_options(Options& options, SuiteCall& call) {
  options.flag("--trust", call.trust,
               "run the programs that resumed records name: see `cultivar resume --help`");
  options.flag("--verbose", call.verbose, "print a line for every individual");
  options.flag("--json", call.as_json, "print the table as JSON on stdout");
}

// The command that goes on: `own` and the options that both commands have.
std::string again(const SuiteCall& call, const std::string& own, const char* turn,
                  const std::string& length) {
  std::string text = fmt::format("{} {}", called_as(), own);
  for (const std::string& name : call.only) text += " --only " + shell_word(name);
  if (!length.empty()) text += fmt::format(" {} {}", turn, shell_word(length));
  for (const std::string& value : call.overrides) text += " --set " + shell_word(value);
  return text;
}

}  // namespace

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
  last_options(options, call);
  if (const auto code = options.parse(arguments)) return *code;

  const std::optional<double> turn_s = turn.empty() ? 0.0 : duration_seconds(turn);
  if (!turn_s || (*turn_s <= 0.0 && !turn.empty()))
    throw InputError(fmt::format("--turn {}: write a duration, such as 60s or 2m", turn));
  call.turn_s = *turn_s;
  std::string own = "suite " + shell_word(call.file);
  if (!call.run_dir.empty()) own += " --run-dir " + shell_word(call.run_dir);
  call.again = again(call, own, "--turn", turn);
  return suite_session(call);
}

int optimise_command(const Arguments& arguments) {
  SuiteCall call;
  std::string folder, slice;
  Options options("optimise",
                  "Searches the regions of a model's campaign: always the one that is expected to gain most "
                  "in an hour, by what was measured so far, for one slice of time. Ctrl-C stops with a "
                  "checkpoint, and the same command goes on. A region whose search fails is left as it was.",
                  "cultivar optimise camp");
  options.argument("CAMPAIGN", folder, "the folder that `cultivar import --inputs` wrote");
  options.option("--slice", slice, "search time after which the ranking is made anew (default: 5m)");
  options.each("--only", call.only, "search only the region of this name");
  options.each("--set", call.overrides, "a.b=c: replace one value of every region's configuration");
  options.flag("--table", call.only_table, "only make the table of what is recorded so far");
  options.flag("--check", call.only_check, "only check the campaign, its tasks and seeds");
  last_options(options, call);
  if (const auto code = options.parse(arguments)) return *code;

  const std::optional<double> slice_s = slice.empty() ? kUsualSlice : duration_seconds(slice);
  if (!slice_s || *slice_s <= 0.0)
    throw InputError(fmt::format("--slice {}: write a duration, such as 60s or 5m", slice));
  call.turn_s = *slice_s;
  call.file = campaign_file(folder);
  call.run_dir = campaign_runs(folder);
  call.again = again(call, "optimise " + shell_word(folder), "--slice", slice);
  return suite_session(call);
}

}  // namespace cultivar
