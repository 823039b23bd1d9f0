// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "engine/cli/commands.hpp"
#include "engine/cli/installation_paths.hpp"
#include "engine/cli/options.hpp"
#include "engine/cli/output.hpp"
#include "engine/store/reclaim.hpp"

namespace cultivar {

int gc_command(const Arguments& arguments) {
  std::string run;
  int keep = 1;
  bool damaged = false, as_json = false;
  Options options(
      "gc",
      fmt::format(
          "Makes the files of a stopped run smaller: removes raw samples, except those of seeds, promoted "
          "kernels, their ancestors and the {} fittest, and all but the newest checkpoint. Decisions, "
          "sources, results and lineage stay, so that `replay` and `resume` work as before.",
          kFittestKept),
      "cultivar gc runs/quickstart");
  options.argument("RUN", run, "the run's folder, or its name under runs/");
  options.option("--keep", keep, "the number of checkpoints that stay");
  options.flag("--damaged", damaged, "also remove the files that a recovery moved aside");
  options.flag("--json", as_json, "print the result as JSON on stdout");
  if (const auto code = options.parse(arguments)) return *code;
  if (keep < 1) throw InputError(fmt::format("--keep {}: at least one checkpoint must stay", keep));

  const Output output(as_json);
  const auto folder = find_run(find_installation(), run);
  const Reclaimed done = must(reclaim(RunFolder(folder), keep, damaged));
  output.facts({{"run", folder.string()},
                {"bytes_before", done.bytes_before},
                {"bytes_after", done.bytes_after},
                {"damaged_bytes", done.damaged_bytes},
                {"evaluations", done.evaluations},
                {"duels", done.duels}});
  const auto size = [](std::uintmax_t bytes) { return bytes_of(static_cast<double>(bytes)); };
  output.line(fmt::format("{}: {} -> {}; removed the samples of {} evaluation{} and the times of {} duel{}",
                          as_typed(folder), size(done.bytes_before), size(done.bytes_after), done.evaluations,
                          done.evaluations == 1 ? "" : "s", done.duels, done.duels == 1 ? "" : "s"));
  if (done.damaged_bytes > 0)
    output.line(fmt::format("{} are in {}, which a recovery moved aside; --damaged removes them",
                            size(done.damaged_bytes), as_typed(RunFolder(folder).damaged())));
  return 0;
}

}  // namespace cultivar
