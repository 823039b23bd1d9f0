// SPDX-License-Identifier: Apache-2.0
// A run's individuals as a table: filtered, sorted, a page at a time.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "engine/store/kernel_lines.hpp"
#include "engine/store/record.hpp"
#include "engine/views/run_index.hpp"

namespace cultivar {

struct TableQuery {
  std::string state;             // "measured", "rejected", "proposed", "promoted"; empty: any
  std::string op, model, stage;  // empty: any
  std::optional<int> island = {};
  std::string text;         // contained in the note, the configuration, the reason ...; empty: any
  std::string sort = "id";  // "id", "fitness", "time", "operator", "island", "stage"
  bool descending = true;
  std::size_t from = 0, count = 50;
};
inline constexpr std::size_t most_rows = 500;  // of a page

// What a row says of an individual.
nlohmann::json line_facts(const RunIndex&, const KernelFacts&, const KernelTexts&);

// "rows": a page of those that fit; "all": how many fit; "operators", "models", "stages", "islands": the
// values that occur.
nlohmann::json table_view(const Record&, const RunIndex&, const TableQuery&);

// All of one individual that a person wants to see: individual_facts() without raw samples, its parent's
// source, the intervals of its times, what its errors are beside contenders, its calls to models as texts.
// null: there is none.
nlohmann::json variant_view(const Record&, const RunIndex&, IndividualId);

// For a page without a server: every individual in few bytes. "columns" names the values of each of "rows";
// operators, models, stages and reasons are numbers of "words".
nlohmann::json compact_table(const RunIndex&);

}  // namespace cultivar
