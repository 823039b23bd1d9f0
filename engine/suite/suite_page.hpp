// SPDX-License-Identifier: Apache-2.0
// A suite's table: for a terminal, as Markdown and as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <map>
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
// The table, fast_p, and for each task its workloads, exactness and lineage. `date`: for people.
// `refused`: Suite::refused.
std::string suite_page(const std::string& suite, const std::vector<SuiteRow>&, const std::string& date,
                       const std::map<std::string, std::string>& refused = {});
nlohmann::json suite_facts(const std::string& suite, const std::vector<SuiteRow>&, const std::string& date,
                           const std::map<std::string, std::string>& refused = {});

// fast_p, KernelBench's measure: of how many problems the best kernel is correct and more than p times as
// fast as a contender. Twice: by KernelBench's rule, and by one that does not count luck.
struct FastP {
  struct Count {
    double p = 0.0;
    int by_ratio = 0;  // measured, so it passed all checks, and its ratio exceeds p (p = 0: measured)
    int by_bound = 0;  // confirmed, and the lower end of its ratio's interval exceeds p (p = 0: confirmed)
  };
  std::string contender;
  std::vector<Count> counts;  // by p
};

// For each contender, by name. Problems without a task, kernel or ratio count for no p.
std::vector<FastP> fast_p(const std::vector<SuiteRow>&);

// Markdown: the counts of all problems; each problem's ratios, with the command that judges it again; and the
// refused ones with their reasons. Empty for a suite without contenders and refused problems.
std::string fast_p_section(const std::vector<SuiteRow>&, const std::map<std::string, std::string>& refused);
nlohmann::json fast_p_facts(const std::vector<SuiteRow>&, const std::map<std::string, std::string>& refused);

}  // namespace cultivar
