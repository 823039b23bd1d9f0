// SPDX-License-Identifier: Apache-2.0
// A suite as one table: what its searches found, and how long its workloads took before and take now.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace cultivar {

inline constexpr const char* kSuiteTable = "table.json";  // which `cultivar suite` writes into its folder

bool is_suite(const std::filesystem::path& folder);  // holds a suite's table
// The names of a suite's tasks in its order, which are the names of their runs' folders; those that could be
// no folder below this one are left out.
std::vector<std::string> tasks_of_suite(const std::filesystem::path& folder);

// One row of the table, from the record of that run alone; a run without a readable record says so as its
// "trouble". "before_us" and "after_us": one execution of each timed workload, together: of the fastest
// contender of each workload (or of the first seed where a workload has no contender; "before" says which),
// and of the best kernel. They were timed beside each other in its confirmation, except for a seed's. null:
// not known.
nlohmann::json suite_row_view(const std::filesystem::path& run);

// Of a campaign's runs: what the model gains, as the suite's table said last. "regions": each with its
// milliseconds of one pass ("ms"), what its best kernel gains of them ("gain_ms") and what could still be
// gained
// ("left_ms"); "pass_ms": of the whole pass before, from the campaign's profile; null: not known. null: it is
// no campaign.
nlohmann::json campaign_view(const std::filesystem::path& suite);

}  // namespace cultivar
