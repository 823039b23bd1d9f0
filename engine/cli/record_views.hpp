// SPDX-License-Identifier: Apache-2.0
// How several commands show a record.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine/cli/installation_paths.hpp"
#include "engine/cli/output.hpp"
#include "engine/store/names.hpp"
#include "engine/store/record.hpp"
#include "engine/store/standings.hpp"
#include "engine/store/summary.hpp"

namespace cultivar {

// By path or name; throws an exception that ends the command. Says on stderr if recorded steps are missing.
Record open_run(const InstallationPaths&, const std::string& run);

nlohmann::json facts_of(const IndividualRow&);
// "+4.4 % (+3.9 to +5.0 %) side by side with #12", and the same as JSON with ratios instead of percent.
std::string duel_text(const DuelResult&);
nlohmann::json facts_of(const DuelResult&);
std::string descent_of(const Individual&);  // "tune of #3 on island 1: BLOCK_M 64 -> 128"
// How a child differs from its parent: "BLOCK_M 64 -> 128" or, when the source differs, the child's note.
std::string change_of(const Individual& parent, const Individual& child);
std::string configuration_text(const Configuration&);  // "BLOCK_M=64 LAYOUT=packed"

// Medians, quartiles and ratios by workload.
std::string evaluation_table(const Evaluation&, const std::string& indent = "");
// Errors against fp64 beside the permitted roundings and the contenders; empty if they were not measured.
std::string exactness_table(const Evaluation&, const std::string& indent = "");
// Beside the fastest contender of each workload; null if none was timed.
nlohmann::json contender_facts(const Evaluation&);
nlohmann::json workload_facts(const Evaluation&);  // the "workloads" of `evaluate --json`

// The form that `status` and `report` print.
std::string text_of(const Best&);
std::string text_of(const Outstanding&);
std::string judged_text(const Summary&);
void print_summary(const Summary&, const Output&);

}  // namespace cultivar
