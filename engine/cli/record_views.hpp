// SPDX-License-Identifier: Apache-2.0
// How several commands show a record.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/cli/installation_paths.hpp"
#include "engine/cli/output.hpp"
#include "engine/store/record.hpp"
#include "engine/store/standings.hpp"
#include "engine/store/summary.hpp"
#include "engine/views/evaluation_view.hpp"
#include "engine/views/individual_view.hpp"

namespace cultivar {

// By path or name; throws an exception that ends the command. Says on stderr if recorded steps are missing.
Record open_run(const InstallationPaths&, const std::string& run);

// Medians, quartiles and ratios by workload.
std::string evaluation_table(const Evaluation&, const std::string& indent = "");
// Errors against fp64 beside the permitted roundings and the contenders; empty if they were not measured.
std::string exactness_table(const Evaluation&, const std::string& indent = "");
// The words of `status`, `report` and the progress of a search.
std::string text_of(const Best&);
std::string text_of(const Outstanding&);
// ", confirmed 2.93x first seed": timed beside it; otherwise "measured".
std::string seed_text(const SeedRatio&);
std::string rate_text(const Summary&);
std::string judged_text(const Summary&);
std::string measured_text(const Summary&);  // "12 measured (3 failed their confirmation)"
std::string rejected_text(const std::map<Stage, std::int64_t>&);    // "80 rejected (compile 50, smoke 30)"
std::string ending_text(const std::string& why, double left_s);     // of a search that ends
std::string name_of_budget(const std::string& kind);                // "device time"
std::string amount_text(const std::string& budget, double amount);  // "1 h 30 min", "0.25"
std::string used_text(const Summary&, const std::string& budget);   // the same, or "not recorded"
std::string counted(std::int64_t number, const std::string& what);  // "1 duel", "2 duels"
// When it began, found its best and ended: what and when, in local time.
std::vector<std::pair<std::string, std::string>> times_of(const Summary&);
void print_summary(const Summary&, const Output&);

}  // namespace cultivar
