// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <thread>
#include <utility>

#include "engine/cli/commands.hpp"
#include "engine/cli/interrupt.hpp"
#include "engine/cli/options.hpp"
#include "engine/cli/output.hpp"
#include "engine/cli/progress_line.hpp"
#include "engine/cli/record_views.hpp"
#include "engine/store/summary.hpp"
#include "evaluators/system/plain_text.hpp"

namespace cultivar {
namespace {

void redraw_live(const Record& record, const Summary& summary, bool again) {
  BestsSoFar bests;
  Standings standings(record);
  for (const PromotionRow& promotion : record.promotions())
    bests.emplace_back(promotion.elapsed_s, standings.fitness(promotion.individual));
  std::string screen = again ? "\033[H" : "\033[H\033[2J";
  for (const std::string& line : drawn(live_view_of(summary, bests), columns_of(stdout) - 1, speaks_utf8()))
    screen += utf8_text(line) + "\033[K\n";
  std::fputs((screen + "\033[J").c_str(), stdout);
}

}  // namespace

int status_command(const Arguments& arguments) {
  std::string run;
  bool watch = false, as_json = false;
  Options options(
      "status",
      "Shows the state of a search: its best kernel, what was evaluated and rejected, and the budget.",
      "cultivar status runs/quickstart --watch");
  options.argument("RUN", run, "the run's folder, or its name under runs/");
  options.flag("--watch", watch,
               "repeat every two seconds until the search stops; on a terminal a few lines that are redrawn");
  options.flag("--json", as_json, "print the result as JSON on stdout");
  if (const auto code = options.parse(arguments)) return *code;

  const Output output(as_json);
  const Record record =
      must(Record::open(find_run(find_installation(), run)));  // the summary says what is lost
  const bool redraw = watch && !as_json && redraws(stdout);
  bool begun = false;
  // A busy machine may keep a reader waiting for long, and nothing is left to be done.
  std::optional<WhenInterrupted> leaving;
  if (watch) leaving.emplace([] { std::_Exit(0); });
  for (;;) {
    const Summary summary = summary_of(record);
    output.facts(summary);
    if (redraw && summary.alive())
      redraw_live(record, summary, std::exchange(begun, true));
    else if (!as_json)
      print_summary(summary, output);
    std::fflush(stdout);
    if (!watch || !summary.alive()) return 0;
    std::this_thread::sleep_for(std::chrono::seconds(2));
  }
}

}  // namespace cultivar
