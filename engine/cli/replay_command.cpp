// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "engine/cli/commands.hpp"
#include "engine/cli/options.hpp"
#include "engine/cli/output.hpp"
#include "engine/cli/record_views.hpp"
#include "engine/cli/search_session.hpp"

namespace cultivar {

int replay_command(const Arguments& arguments) {
  std::string run;
  bool as_json = false;
  Options options("replay",
                  "Recomputes every decision of a run from its record and reports each one that differs.",
                  "cultivar replay runs/quickstart");
  options.argument("RUN", run, "the run's folder, or its name under runs/");
  options.flag("--json", as_json, "print the result as JSON on stdout");
  if (const auto code = options.parse(arguments)) return *code;

  const Output output(as_json);
  const InstallationPaths installation = find_installation();
  const bool complete = open_run(installation, run).lost_steps().empty();  // which says what is lost
  const ReplayReport report = must(replay(find_run(installation, run), runtime_of(installation)));
  output.facts({{"questions", report.questions},
                {"proposals", report.proposals},
                {"judgements", report.judgements},
                {"promotions", report.promotions},
                {"migrations", report.migrations},
                {"interventions", report.interventions},
                {"differences", report.differences},
                {"complete", complete}});
  output.line(fmt::format(
      "Recomputed: {} questions, {} proposals, {} evaluations, {} promotions, {} migrations.",
      report.questions, report.proposals, report.judgements, report.promotions, report.migrations));
  for (const std::string& difference : report.differences) output.line("  differs: " + difference);
  output.line(!report.differences.empty() ? "The record and its replay do not agree."
              : complete                  ? "The record and its replay agree."
                                          : "What is left of the record and its replay agree.");
  return report.differences.empty() ? 0 : 1;
}

}  // namespace cultivar
