// SPDX-License-Identifier: Apache-2.0
// A suite's table: for a terminal, as Markdown and as JSON.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "engine/suite/suite_row.hpp"

namespace cultivar {

// The heads come first.
std::vector<std::vector<std::string>> suite_cells(const std::vector<SuiteRow>&);
// What a task's trouble is: "softmax: no kernel passed every check ...".
std::vector<std::string> suite_troubles(const std::vector<SuiteRow>&);
// Of which best kernels the confirmation and the search gave fitnesses far apart, and the likely cause.
std::vector<std::string> suite_notes(const std::vector<SuiteRow>&);
// The table, fast_p (suite_fast_p.hpp), and for each task its workloads, exactness and lineage. `date`: for
// people. `refused`: Suite::refused.
std::string suite_page(const std::string& suite, const std::vector<SuiteRow>&, const std::string& date,
                       const std::map<std::string, std::string>& refused = {});
nlohmann::json suite_facts(const std::string& suite, const std::vector<SuiteRow>&, const std::string& date,
                           const std::map<std::string, std::string>& refused = {});

}  // namespace cultivar
