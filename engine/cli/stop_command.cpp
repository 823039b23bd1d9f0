// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "engine/cli/commands.hpp"
#include "engine/cli/detached_search.hpp"
#include "engine/cli/interrupt.hpp"
#include "engine/cli/options.hpp"
#include "engine/cli/output.hpp"
#include "engine/cli/record_views.hpp"
#include "engine/config/duration.hpp"
#include "engine/store/summary.hpp"
#include "evaluators/system/clock.hpp"

namespace cultivar {

int stop_command(const Arguments& arguments) {
  std::string run, wait = "2m";
  bool as_json = false, now = false;
  Options options("stop",
                  "Stops a running search with a checkpoint, as Ctrl-C does in its terminal, and waits until "
                  "it has stopped.",
                  "cultivar stop runs/quickstart");
  options.argument("RUN", run, "the run's folder, or its name under runs/");
  options.option("--wait", wait, "how long to wait");
  options.flag("--now", now, "end it at once: the record is safe, work in flight is lost");
  options.flag("--json", as_json, "print the status as JSON on stdout, like `status --json`");
  if (const auto code = options.parse(arguments)) return *code;
  const auto limit = duration_seconds(wait);
  if (!limit) throw InputError(fmt::format("--wait {}: not a duration; write for example 2m", wait));

  const Output output(as_json);
  const InstallationPaths installation = find_installation();
  const auto path = find_run(installation, run, "run.lock");
  const RunFolder folder(path);
  const auto process = process_of(folder);
  const auto tell = [&] {
    std::error_code none;
    if (!std::filesystem::exists(folder.database(), none)) return;
    const Summary summary = summary_of(must(Record::open(path)));
    output.facts(summary);
    if (!as_json) print_summary(summary, output);
  };
  if (!process) {
    notify("{} is not running.\n", as_typed(path));
    tell();
    return 0;
  }
  ::kill(*process, SIGTERM);
  const Clock::time_point deadline = deadline_in(*limit), at_once = deadline_in(0.2);
  bool told = false;
  for (bool again = !now; process_of(folder) == process;) {
    const bool suspended = is_suspended(*process);
    if (suspended && !std::exchange(told, true))
      notify("Process {} is suspended: `kill -CONT {}` lets it go on, and it then stops.\n", *process,
             *process);
    if (!again && Clock::now() > at_once) {
      again = true;
      ::kill(*process, SIGTERM);  // the second one ends it
    }
    if (interrupted() || Clock::now() > deadline) {
      if (!suspended)
        notify(
            "Process {} has not stopped yet; it stops when its last step is recorded. If its container or "
            "job is frozen, let that go on first. If it never stops, `kill -9 {}` loses only work in "
            "flight.\n",
            *process, *process);
      return 1;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  tell();
  return 0;
}

}  // namespace cultivar
