#include "engine/cli/commands.hpp"
#include "engine/cli/options.hpp"
#include "engine/cli/search_session.hpp"

namespace cultivar {

int resume_command(const Arguments& arguments) {
  std::string run;
  std::vector<std::string> overrides;
  bool as_json = false, verbose = false, trust = false;
  Options options("resume", "Resumes a stopped search exactly where its record ends.",
                  "cultivar resume runs/quickstart --set budget.wall=1h");
  options.argument("RUN", run, "the run's folder, or its name under runs/");
  options.each(
      "--set", overrides,
      "budget.KEY=VALUE: a new budget, larger than what is already used; gate.KEY=VALUE: a setting of "
      "the gate for later duels; undecided challengers of the best kernel are compared again");
  options.flag("--trust", trust,
               "run the programs that the record names: its launcher, and commands and libraries not used "
               "here before");
  options.flag("--verbose", verbose, "print a line for every individual");
  options.flag("--json", as_json, "print the final status as JSON on stdout, like `status --json`");
  if (const auto code = options.parse(arguments)) return *code;

  const Output output(as_json);
  const InstallationPaths installation = find_installation();
  const auto folder = find_run(installation, run);
  return search_session(installation, folder, output, verbose,
                        [&](Runtime runtime, const SearchCallbacks& callbacks) {
                          runtime.trusts_record = trust;
                          return resume_search(folder, overrides, runtime, callbacks, interrupted());
                        });
}

}  // namespace cultivar
