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
  options.flag("--trust", call.trust,
               "run the programs that resumed records name: see `cultivar resume --help`");
  options.flag("--verbose", call.verbose, "print a line for every individual");
  options.flag("--json", call.as_json, "print the table as JSON on stdout");
  if (const auto code = options.parse(arguments)) return *code;

  const std::optional<double> slice_s = slice.empty() ? kUsualSlice : duration_seconds(slice);
  if (!slice_s || *slice_s <= 0.0)
    throw InputError(fmt::format("--slice {}: write a duration, such as 60s or 5m", slice));
  call.turn_s = *slice_s;
  call.file = campaign_file(folder);
  call.run_dir = campaign_runs(folder);
  call.again = fmt::format("{} optimise {}", called_as(), shell_word(folder));
  for (const std::string& name : call.only) call.again += " --only " + shell_word(name);
  if (!slice.empty()) call.again += " --slice " + shell_word(slice);
  for (const std::string& value : call.overrides) call.again += " --set " + shell_word(value);
  return suite_session(call);
}

}  // namespace cultivar
