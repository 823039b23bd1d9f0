// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/cli/commands.hpp"
#include "engine/cli/installation_paths.hpp"
#include "engine/cli/options.hpp"
#include "engine/cli/output.hpp"
#include "engine/views/run_list.hpp"
#include "evaluators/system/plain_text.hpp"

namespace cultivar {
namespace fs = std::filesystem;

int runs_command(const Arguments& arguments) {
  std::string folder;
  bool as_json = false;
  Options options(
      "runs",
      "Lists the runs of a folder, and of the suites in it; the ones that run now first, then the newest.",
      "cultivar runs");
  options.optional_argument("FOLDER", folder,
                            "the folder whose runs to list (default: runs/ of the current folder and of the "
                            "installation)");
  options.flag("--json", as_json, "print the result as JSON on stdout");
  if (const auto code = options.parse(arguments)) return *code;

  const Output output(as_json);
  std::vector<fs::path> folders{folder};
  if (folder.empty())
    folders = {"runs", find_installation().root / "runs"};
  else if (std::error_code none; !fs::is_directory(folder, none))
    throw InputError(fmt::format("{} is not a folder", folder));
  std::vector<ListedRun> all;
  std::set<fs::path> seen;
  for (const fs::path& each : folders)
    for (const fs::path& path : runs_below(each)) {
      if (!seen.insert(path).second) continue;
      all.push_back(listed(path));
    }
  newest_first(all);
  nlohmann::json facts = nlohmann::json::array();
  Table table({"run", "state", "task", "best (during the search)", "evaluated", "searched", "began"});
  for (const ListedRun& shown : all) {
    const Summary& s = shown.summary;
    facts.push_back(to_json(shown));
    if (!shown.trouble.empty()) {
      table.row({as_typed(shown.path), "unreadable", "", "", "", "", ""});
      notify("{}: {}\n", as_typed(shown.path), utf8_text(shown.trouble));
      continue;
    }
    if (!s.lost.empty()) notify("{}: {}.\n", as_typed(shown.path), s.lost);
    table.row({as_typed(shown.path), s.state + (s.ended_at ? " " + local_minute(*s.ended_at) : ""),
               fmt::format("{} on {}", s.task, s.target),
               s.best ? fmt::format("{:.4g} {}", s.best->fitness, s.best->unit) : "none",
               std::to_string(s.evaluations), duration(s.elapsed_s),
               s.started_at ? local_minute(*s.started_at) : ""});
  }
  output.facts(facts);
  output.line(all.empty()
                  ? "There are no runs here; start one with: " + called_as() + " run configs/quickstart.yaml"
                  : table.text());
  return 0;
}

}  // namespace cultivar
