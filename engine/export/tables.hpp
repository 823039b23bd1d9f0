// The bundle's human-readable parts: the table of times with intervals, and the lineage.
#pragma once

#include <string>
#include <string_view>

#include "engine/store/record.hpp"

namespace cultivar {

// Markdown: per workload the median with its 95 % bootstrap interval, quartiles, samples, value, contender
// ratios.
std::string workload_table(const Evaluation&);
// Markdown: from the seed to the exported kernel, what each step was and gave.
std::string lineage_text(const std::vector<IndividualRow>&, const std::string& unit);
// Text of models in a table of Markdown: neither columns nor HTML nor links come out of it.
std::string in_a_cell(std::string_view text);
nlohmann::json lineage_json(const std::vector<IndividualRow>&);

}  // namespace cultivar
