// SPDX-License-Identifier: Apache-2.0
// Every individual of a run as a line of a file. A value that was not measured is empty in CSV and null in
// JSON lines.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "engine/store/record.hpp"
#include "engine/views/run_index.hpp"

namespace cultivar {

struct FileColumn {
  const char *name, *about;
};
const std::vector<FileColumn>& file_columns();

// One line at a time: of a CSV file with a line of heads, and of JSON lines.
void each_csv_line(const Record&, const RunIndex&, const std::function<void(std::string_view)>& write);
void each_json_line(const Record&, const RunIndex&, const std::function<void(std::string_view)>& write);

}  // namespace cultivar
