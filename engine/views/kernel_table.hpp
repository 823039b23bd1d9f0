// SPDX-License-Identifier: Apache-2.0
// A run's individuals as a table: filtered, sorted, a page at a time, or as a file.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/store/kernel_lines.hpp"
#include "engine/store/record.hpp"
#include "engine/views/run_index.hpp"

namespace cultivar {

struct TableQuery {
  // "measured", "rejected", "proposed", "promoted", "expelled" (failed its confirmation); empty: any.
  std::string state;
  std::string op, model, stage, reason;  // empty: any; those of an expelled one are of its confirmation
  std::optional<int> island = {};
  std::string text;  // contained in the note, the configuration, the reason ...; empty: any
  // "id", "fitness", "time", "operator", "island", "stage"; those without a value are last in both orders.
  std::string sort = "id";
  bool descending = true;
  std::size_t from = 0, count = 50;
};
inline constexpr std::size_t most_rows = 500;  // of a page

// "BLOCK_M=64 STAGES=2" of a configuration as recorded; what is no configuration as it is.
std::string setting_text(const std::string& recorded);

// What a row says of an individual.
nlohmann::json line_facts(const RunIndex&, const KernelFacts&, const KernelTexts&);

// "rows": a page of those that fit; "all": how many fit; "operators", "models", "stages", "islands": the
// values that occur.
nlohmann::json table_view(const Record&, const RunIndex&, const TableQuery&);

// All of one individual that a person wants to see: individual_facts() without raw samples, its parent's
// source, the intervals of its times, what its errors are beside contenders, its calls to models as texts.
// null: there is none.
nlohmann::json variant_view(const Record&, const RunIndex&, IndividualId);

// Under which name its source is saved: letters, digits, "-" and "_", with the language's extension.
std::string source_file(const Record&, IndividualId);

// For a page without a server: every individual in few bytes. "columns" names the values of each of "rows";
// operators, models, stages, reasons, configurations and notes are numbers of "words". "cut": of how many the
// texts are not whole: notes beyond 2,000 bytes, and all texts of the oldest where they would not fit a file.
nlohmann::json compact_table(const Record&, const RunIndex&);

// Every individual of a run as a line of a file. A value that was not measured is empty in CSV and null in
// JSON lines.
struct FileColumn {
  const char *name, *about;
};
const std::vector<FileColumn>& file_columns();

// One line at a time: of a CSV file with a line of heads, and of JSON lines.
void each_csv_line(const Record&, const RunIndex&, const std::function<void(std::string_view)>& write);
void each_json_line(const Record&, const RunIndex&, const std::function<void(std::string_view)>& write);

}  // namespace cultivar
