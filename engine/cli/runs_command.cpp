// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/cli/commands.hpp"
#include "engine/cli/options.hpp"
#include "engine/cli/record_views.hpp"
#include "engine/cli/trouble.hpp"
#include "engine/store/summary.hpp"
#include "evaluators/system/plain_text.hpp"

namespace cultivar {
namespace fs = std::filesystem;
namespace {

std::vector<fs::path> folders_in(const fs::path& folder) {
  std::vector<fs::path> folders;
  std::error_code failed;
  fs::directory_iterator at(folder, failed);
  for (const fs::directory_iterator end; !failed && at != end; at.increment(failed))
    if (std::error_code none; at->is_directory(none)) folders.push_back(at->path());
  return folders;
}

bool is_run(const fs::path& folder) {
  std::error_code none;
  return fs::exists(folder / "run.db", none);
}

// Also those of suites, which lie in the folder of their suite.
std::vector<fs::path> runs_below(const fs::path& folder) {
  std::vector<fs::path> runs;
  std::error_code none;
  for (const fs::path& each : folders_in(folder))
    if (is_run(each))
      runs.push_back(fs::canonical(each, none));
    else
      for (const fs::path& of_suite : folders_in(each))
        if (is_run(of_suite)) runs.push_back(fs::canonical(of_suite, none));
  std::ranges::sort(runs);
  return runs;
}

std::uintmax_t disk_use(const fs::path& folder) {
  std::uintmax_t bytes = 0;
  std::error_code failed;
  fs::recursive_directory_iterator at(folder, failed);
  for (const fs::recursive_directory_iterator end; !failed && at != end; at.increment(failed)) {
    std::error_code none;
    if (const auto size = at->is_regular_file(none) ? at->file_size(none) : 0; !none) bytes += size;
  }
  return bytes;
}

}  // namespace

int runs_command(const Arguments& arguments) {
  std::string folder;
  bool as_json = false;
  Options options("runs", "Lists the runs of a folder, and of the suites in it; the ones that run now first.",
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
  struct Shown {
    fs::path path;
    Summary summary;
    std::string trouble;
    std::uintmax_t bytes = 0;
  };
  std::vector<Shown> all;
  std::set<fs::path> seen;
  for (const fs::path& each : folders)
    for (const fs::path& path : runs_below(each)) {
      if (!seen.insert(path).second) continue;
      Shown& shown = all.emplace_back();
      shown.path = path;
      shown.bytes = disk_use(path);
      try {  // one damaged run does not hide the others
        shown.summary = summary_of(must(Record::open(path)));
      } catch (const std::exception& error) {
        shown.trouble = error.what();
      }
    }
  std::stable_partition(all.begin(), all.end(), [](const Shown& shown) { return shown.summary.alive(); });
  nlohmann::json facts = nlohmann::json::array();
  Table table(
      {"run", "state", "task", "target", "best (during the search)", "evaluated", "searched", "disk"});
  for (const Shown& shown : all) {
    const Summary& s = shown.summary;
    facts.push_back({{"folder", shown.path.string()}, {"bytes", shown.bytes}});
    if (!shown.trouble.empty()) {
      facts.back()["trouble"] = shown.trouble;
      table.row({as_typed(shown.path), "unreadable", "", "", "", "", "",
                 bytes_of(static_cast<double>(shown.bytes))});
      notify("{}: {}\n", as_typed(shown.path), utf8_text(shown.trouble));
      continue;
    }
    facts.back()["status"] = s;
    if (!s.lost.empty()) notify("{}: {}.\n", as_typed(shown.path), s.lost);
    table.row({as_typed(shown.path), s.state, s.task, s.target,
               s.best ? fmt::format("{:.4g} {}", s.best->fitness, s.best->unit) : "none",
               std::to_string(s.evaluations), duration(s.elapsed_s),
               bytes_of(static_cast<double>(shown.bytes))});
  }
  output.facts(facts);
  output.line(all.empty()
                  ? "There are no runs here; start one with: " + called_as() + " run configs/quickstart.yaml"
                  : table.text());
  return 0;
}

}  // namespace cultivar
