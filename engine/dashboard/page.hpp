// SPDX-License-Identifier: Apache-2.0
// The dashboard's page: as a server's files, and as one file that holds a run.
#pragma once

#include <string>

#include "engine/store/record.hpp"
#include "engine/views/run_index.hpp"

namespace cultivar {

inline constexpr const char* kPageMark = "Made by `cultivar report`";  // in each such file

std::string page_html();
std::string page_style();
std::string page_script();

// A run as one file without a server: it asks for nothing. Every individual is in its table; source,
// evaluation and calls of those that became the best, their ancestors, the fastest and some of the rejected
// ones, as long as it stays below about 12 MB.
std::string page_of_run(const Record&, const RunIndex&);

}  // namespace cultivar
