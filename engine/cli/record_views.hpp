// SPDX-License-Identifier: Apache-2.0
// How several commands show a record.
#pragma once

#include <string>

#include "engine/cli/installation_paths.hpp"
#include "engine/cli/output.hpp"
#include "engine/store/names.hpp"
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
// The form that `status` and `report` print.
std::string text_of(const Best&);
std::string text_of(const Outstanding&);
std::string judged_text(const Summary&);
void print_summary(const Summary&, const Output&);

}  // namespace cultivar
