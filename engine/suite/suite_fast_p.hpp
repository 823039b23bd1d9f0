// SPDX-License-Identifier: Apache-2.0
// fast_p, KernelBench's measure: of how many problems the best kernel is correct and more than p times as
// fast as a contender. Twice: by KernelBench's rule, and by one that does not count luck.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "engine/suite/suite_row.hpp"

namespace cultivar {

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
