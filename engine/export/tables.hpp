// The bundle's tables for people: times with intervals, and the lineage.
#pragma once

#include <string>

#include "engine/store/record.hpp"

namespace cultivar {

// Markdown: per workload the median with its 95 % bootstrap interval, quartiles, samples, value, contender
// ratios.
std::string workload_table(const Evaluation&);
// Markdown: every step from the seed to the exported kernel, with its gain.
std::string lineage_text(const std::vector<IndividualRow>&, const std::string& unit);
nlohmann::json lineage_json(const std::vector<IndividualRow>&);

}  // namespace cultivar
