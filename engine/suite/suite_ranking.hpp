// SPDX-License-Identifier: Apache-2.0
// Of a suite with a ranking (a campaign): how much of the whole each task could still gain, and which search
// goes on next. Everything is read from the records, so that a resumed suite decides as one that was not
// stopped.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/store/record.hpp"
#include "engine/suite/suite.hpp"

namespace cultivar {

struct RankedTask {
  std::string name;
  double searched_s = 0.0;  // of search time; 0: it did not begin
  double ms = 0.0;          // of the region in one pass of the whole, as it was measured before the search
  double left_ms = 0.0;     // that its best kernel does not gain yet, down to what the machine needs at least
  // Over what the model has, from the confirmation of its best: over the fastest contender of each workload,
  // or over RegionTime::call_ms; 0: no confirmed best, or no contender.
  double speedup = 0.0;
  double gain_ms = 0.0;     // of one pass by the best kernel; 0 if it is slower than what the model has
  double gain_per_h = 0.0;  // ms of one pass for an hour of search, in the later half of its search time
  bool can_go_on = true;    // false: it has finished, failed, or waits for answers
};

// Ranks a task by the record in `run_folder`, if there is one.
RankedTask ranked(const SuiteTask&, const RegionTime&, const std::filesystem::path& run_folder);
// The same from its parts: `promotions` in order; `speedup` is that of the last one.
RankedTask ranked(std::string name, const RegionTime&, double searched_s, double speedup,
                  const std::vector<PromotionRow>& promotions);

// All tasks, in the suite's order; empty without a ranking.
std::vector<RankedTask> ranking_of(const Suite&, const std::filesystem::path& folder);

// The task that is expected to gain most in an hour of search: first those that were not searched, the
// greatest possible gain first; then by the gain in the later half of the search so far; where none gained
// anything, the one with the most left for its search time. nullopt: none can go on.
std::optional<std::size_t> next_of(const std::vector<RankedTask>&);

// What is used of the limits of the whole, summed over the records. Empty: something is left; otherwise which
// limit is reached.
std::string reached_limit(const Suite&, const std::filesystem::path& folder);
// Seconds of the wall limit that are left; 0 also without a limit.
double seconds_left(const Suite&, const std::filesystem::path& folder);

// The table for people, with its heads, as a section of a Markdown page, and for programs.
std::vector<std::vector<std::string>> ranking_cells(const std::vector<RankedTask>&);
std::string ranking_section(const std::vector<RankedTask>&);  // empty without tasks
nlohmann::json ranking_facts(const std::vector<RankedTask>&);

}  // namespace cultivar
