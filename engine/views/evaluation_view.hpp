// SPDX-License-Identifier: Apache-2.0
// What an evaluation says, as plain data and as rows of words: how fast beside contenders, how exact, on what
// it was right.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "evaluators/timing/roofline.hpp"
#include "evaluators/verdict/evaluation.hpp"

namespace cultivar {

// How fast it is beside the fastest contender of each workload: that one's time over its own.
struct BesideContenders {
  double mean = 0.0;  // geometric
  double lowest = 0.0, highest = 0.0;
  std::string lowest_on;  // the workload
};
std::optional<BesideContenders> beside_best_contenders(const Evaluation&);  // nullopt: none was timed
// "beside the fastest contender of each workload 1.03x (geometric mean), lowest 0.96x on W"
std::string words_of(const BesideContenders&);
// Rms and max errors against fp64, relative to those of the permitted roundings, of the variant and of each
// contender, by distribution of the inputs. The heads come first; empty if they were not measured.
std::vector<std::vector<std::string>> exactness_rows(const Evaluation&);
// The greatest rms error beside what no kernel can be blamed for; empty if that is unknown.
std::string exactness_words(const Evaluation&);
// On what it was right, in one line: the domain of every claim about it.
std::string checked_words(const Checked&);

// Beside the fastest contender of each workload; null if none was timed.
nlohmann::json contender_facts(const Evaluation&);
nlohmann::json workload_facts(const Evaluation&);  // the "workloads" of `evaluate --json`
// One element of `evaluate --json`. `variant`: as the user named it; `id`: empty if it has none. `profile`:
// null or report_json.
nlohmann::json evaluation_facts(const std::string& variant, const std::string& id, const Evaluation&,
                                const nlohmann::json& profile, const std::vector<BeyondMemory>&);

}  // namespace cultivar
