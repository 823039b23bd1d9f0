// The bundle's tables for people: times with intervals, and the lineage.
#pragma once

#include <string>

#include "engine/store/record.hpp"

namespace cultivar {

// Markdown: per workload the median with its 95 % bootstrap interval, quartiles, samples, value, contender
// ratios.
std::string workload_table(const Evaluation&);
// Rms and max errors against fp64, relative to those of the permitted roundings, of the variant and of each
// contender, by distribution of the inputs. The heads come first; empty if they were not measured.
std::vector<std::vector<std::string>> exactness_rows(const Evaluation&);
std::string exactness_section(const Evaluation&);  // in Markdown, with a line of explanation; may be empty
// Markdown: every step from the seed to the exported kernel, with its gain.
std::string lineage_text(const std::vector<IndividualRow>&, const std::string& unit);
nlohmann::json lineage_json(const std::vector<IndividualRow>&);

}  // namespace cultivar
