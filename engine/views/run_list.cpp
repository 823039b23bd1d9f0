// SPDX-License-Identifier: Apache-2.0
#include "engine/views/run_list.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "engine/store/record.hpp"

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

bool is_run(const fs::path& folder) {
  std::error_code none;
  return fs::exists(folder / "run.db", none);
}

std::vector<fs::path> runs_below(const fs::path& folder) {
  std::vector<fs::path> runs;
  std::error_code none;
  if (is_run(folder)) return {fs::canonical(folder, none)};
  for (const fs::path& each : folders_in(folder))
    if (is_run(each))
      runs.push_back(fs::canonical(each, none));
    else
      for (const fs::path& of_suite : folders_in(each))
        if (is_run(of_suite)) runs.push_back(fs::canonical(of_suite, none));
  std::ranges::sort(runs);
  return runs;
}

ListedRun listed(const fs::path& run) {
  ListedRun shown;
  shown.path = run;
  shown.bytes = disk_use(run);
  try {  // one damaged run does not hide the others
    if (const auto record = Record::open(run))
      shown.summary = summary_of(*record);
    else
      shown.trouble = record.error().text();
  } catch (const std::exception& error) {
    shown.trouble = error.what();
  }
  return shown;
}

void newest_first(std::vector<ListedRun>& runs) {
  const auto last_active = [](const ListedRun& run) {
    const Summary& s = run.summary;
    if (!run.trouble.empty()) return 0.0;
    return s.alive() ? std::numeric_limits<double>::infinity()
                     : s.ended_at.value_or(s.started_at.value_or(0.0));
  };
  std::ranges::stable_sort(runs, std::greater(), last_active);
}

nlohmann::json to_json(const ListedRun& run) {
  nlohmann::json facts{{"folder", run.path.string()}, {"bytes", run.bytes}};
  if (!run.trouble.empty())
    facts["trouble"] = run.trouble;
  else
    facts["status"] = run.summary;
  return facts;
}

}  // namespace cultivar
