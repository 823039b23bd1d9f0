// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <chrono>
#include <thread>

#include "engine/cli/commands.hpp"
#include "engine/cli/interrupt.hpp"
#include "engine/cli/options.hpp"
#include "engine/cli/record_views.hpp"
#include "engine/cli/trouble.hpp"
#include "engine/store/summary.hpp"

namespace cultivar {

int status_command(const Arguments& arguments) {
  std::string run;
  bool watch = false, as_json = false;
  Options options(
      "status",
      "Shows the state of a search: its best kernel, what was evaluated and rejected, and the budget.",
      "cultivar status runs/quickstart --watch");
  options.argument("RUN", run, "the run's folder, or its name under runs/");
  options.flag("--watch", watch, "repeat every two seconds until the search stops");
  options.flag("--json", as_json, "print the result as JSON on stdout");
  if (const auto code = options.parse(arguments)) return *code;

  const Output output(as_json);
  const Record record =
      must(Record::open(find_run(find_installation(), run)));  // the summary says what is lost
  const bool redraw = watch && !as_json && ::isatty(STDOUT_FILENO) == 1;
  for (;;) {
    const Summary summary = summary_of(record);
    if (redraw) std::fputs("\033[H\033[2J", stdout);
    output.facts(summary);
    if (!as_json) print_summary(summary, output);
    std::fflush(stdout);
    if (!watch || !summary.alive()) return 0;
    for (int i = 0; i < 20; ++i) {
      if (interrupted()) return 0;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  }
}

}  // namespace cultivar
