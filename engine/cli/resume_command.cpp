#include <algorithm>
#include <iterator>

#include "engine/cli/commands.hpp"
#include "engine/cli/detached_search.hpp"
#include "engine/cli/options.hpp"
#include "engine/cli/search_session.hpp"

namespace cultivar {

int resume_command(const Arguments& arguments) {
  std::string run;
  std::vector<std::string> overrides;
  bool trust = false;
  SessionOptions session;
  Options options("resume", "Resumes a stopped search exactly where its record ends.",
                  "cultivar resume runs/quickstart --set budget.wall=1h");
  options.argument("RUN", run, "the run's folder, or its name under runs/");
  options.each(
      "--set", overrides,
      "budget.KEY=VALUE: a new budget, larger than what is already used; gate.KEY=VALUE: a setting of "
      "the gate for later duels; undecided challengers of the best kernel are compared again; "
      "evaluation.KEY=VALUE: launcher, devices, depth, workers_per_device, compile_workers; notify, metrics, "
      "checkpoint");
  options.flag("--trust", trust,
               "run the programs that the record names: its launcher, and commands and libraries not used "
               "here before");
  session.add_to(options);
  if (const auto code = options.parse(arguments)) return *code;

  const Output output(session.as_json);
  const InstallationPaths installation = find_installation();
  const auto folder = find_run(installation, run);
  if (session.detach) {
    std::vector<std::string> again{"resume", folder.string()};
    for (const std::string& each : overrides) again.insert(again.end(), {"--set", each});
    if (trust) again.emplace_back("--trust");
    std::ranges::copy(session.again(), std::back_inserter(again));
    return start_detached(std::move(again), RunFolder(folder), output);
  }
  session.open_log();
  return search_session(installation, folder, output, session,
                        [&](Runtime runtime, const SearchCallbacks& callbacks) {
                          runtime.trusts_record = trust;
                          return resume_search(folder, overrides, runtime, callbacks, interrupted());
                        });
}

}  // namespace cultivar
