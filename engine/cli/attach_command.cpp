// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/commands.hpp"
#include "engine/cli/detached_search.hpp"
#include "engine/cli/interrupt.hpp"
#include "engine/cli/options.hpp"
#include "engine/cli/record_views.hpp"
#include "engine/store/run_folder.hpp"
#include "engine/store/summary.hpp"
#include "evaluators/system/plain_text.hpp"

namespace cultivar {

int attach_command(const Arguments& arguments) {
  std::string run;
  bool as_json = false;
  int lines = 20;
  Options options("attach",
                  "Follows a search that was started with --detach or --log until it stops. Ctrl-C ends only "
                  "this command; the search goes on.",
                  "cultivar attach runs/quickstart");
  options.argument("RUN", run, "the run's folder, or its name under runs/");
  options.option("--lines", lines, "the number of earlier lines to show first");
  options.flag("--json", as_json, "print the status as JSON on stdout at the end, like `status --json`");
  if (const auto code = options.parse(arguments)) return *code;

  const Output output(as_json);
  const auto path = find_run(find_installation(), run, "run.lock");
  const RunFolder folder(path);
  std::error_code none;
  if (!std::filesystem::exists(folder.log(), none))
    throw InputError(fmt::format(
        "{0} has no log, because its search prints to a terminal. To watch it:  {1} status {0} --watch",
        as_typed(path), called_as()));
  const auto runs = [&] { return RunLock::holder(folder).has_value(); };
  follow_log(
      folder.log(), static_cast<std::size_t>(std::max(0, lines)),
      [&](const std::string& line) {
        output.line(utf8_text(line));
        std::fflush(output.text());
      },
      [&] { return !interrupted() && runs(); });
  if (interrupted() && runs())
    notify("The search goes on. To stop it:  {} stop {}\n", called_as(), as_typed(path));
  if (!std::filesystem::exists(folder.database(), none)) return runs() ? 0 : 1;
  const Summary summary = summary_of(open_run(find_installation(), path.string()));
  output.facts(summary);
  return summary.state == "failed" ? 1 : 0;
}

}  // namespace cultivar
