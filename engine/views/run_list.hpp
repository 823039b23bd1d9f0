// SPDX-License-Identifier: Apache-2.0
// The runs of a folder, and what each is doing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "engine/store/summary.hpp"

namespace cultivar {

bool is_run(const std::filesystem::path& folder);

// Also those of suites, which lie in the folder of their suite. Canonical paths, sorted.
std::vector<std::filesystem::path> runs_below(const std::filesystem::path& folder);

struct ListedRun {
  std::filesystem::path path;
  Summary summary;
  std::string trouble;  // why it cannot be read; empty: it can
  std::uintmax_t bytes = 0;
};
ListedRun listed(const std::filesystem::path& run);
// Runs that a process holds, then by the last that was recorded; what cannot be read at the end.
void newest_first(std::vector<ListedRun>&);
nlohmann::json to_json(const ListedRun&);  // an element of `runs --json`

}  // namespace cultivar
