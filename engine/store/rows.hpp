// SPDX-License-Identifier: Apache-2.0
// Rows of SQLite as values: what goes into a statement, and what comes out of it, in order. For the source
// files of this folder.
#pragma once

#include <SQLiteCpp/Column.h>
#include <SQLiteCpp/Statement.h>
#include <SQLiteCpp/VariadicBind.h>
#include <nlohmann/json.hpp>

#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

#include "engine/store/record.hpp"
#include "evaluators/system/json_text.hpp"
#include "evaluators/verdict/evaluation.hpp"

namespace cultivar {

// JSON that the record holds. Copying JSON is recursive, so text that is nested too deeply is rejected.
inline nlohmann::json json_in(const std::string& text) {
  constexpr int most_levels = 256;
  if (nests_too_deep(text, most_levels))
    throw std::runtime_error("the record is inconsistent: it holds JSON that is nested too deeply");
  return nlohmann::json::parse(text);
}

// A column as a T: a number, a flag, an enum kept as its number, a text, or JSON of a T.
template <class T>
T column(SQLite::Statement& row, int index) {
  const SQLite::Column value = row.getColumn(index);
  if constexpr (std::is_same_v<T, std::string>)
    return value.getString();
  else if constexpr (std::is_same_v<T, bool>)
    return value.getInt() != 0;
  else if constexpr (std::is_floating_point_v<T>)
    return value.getDouble();
  else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>)
    return static_cast<T>(value.getInt64());
  else
    return json_in(value.getString()).template get<T>();
}

// The row's columns from `first` on into these.
template <class... Values>
void read_columns(SQLite::Statement& row, int first, Values&... into) {
  ((into = column<Values>(row, first++)), ...);
}
template <class... Values>
void read_row(SQLite::Statement& row, Values&... into) {
  read_columns(row, 0, into...);
}

// A query with its parameters.
template <class... Values>
SQLite::Statement query(SQLite::Database& database, const std::string& sql, const Values&... values) {
  SQLite::Statement statement(database, sql);
  SQLite::bind(statement, values...);
  return statement;
}

// Every row of it, as visit(SQLite::Statement&).
template <class Visit, class... Values>
void each_row(SQLite::Database& database, const std::string& sql, const Visit& visit,
              const Values&... values) {
  SQLite::Statement rows = query(database, sql, values...);
  while (rows.executeStep()) visit(rows);
}

// The first column of the first row; T() where there is none.
template <class T, class... Values>
T first_of(SQLite::Database& database, const std::string& sql, const Values&... values) {
  SQLite::Statement rows = query(database, sql, values...);
  return rows.executeStep() ? column<T>(rows, 0) : T();
}

// A fact of the run by its name; empty if it has none.
inline std::string meta(SQLite::Database& db, const char* key) {
  return first_of<std::string>(db, "SELECT value FROM meta WHERE key = ?", key);
}

// Checks of what a record says where it is read: its file may have been changed by another program. Each
// throws InconsistentRecord.
class InconsistentRecord : public std::runtime_error {
 public:
  using runtime_error::runtime_error;
};

// A finite number; `what` names it.
double number_in(const std::string& text, std::string_view what);
// The individual, if it is one of `count`.
IndividualId existing(IndividualId, std::int64_t count);
// The task's name and its files' names lead to no other folder.
void require_inside(const RunFacts&);
// A state that a search can write.
void require_plausible(IndividualId, IndividualState);
// The state, and a finite fitness; names of a bounded length.
void require_plausible(const IndividualRow&);
void require_plausible(const DecisionRow&);

// Raw samples as bytes: exact, and 8 bytes each when only the time is known.

// Little-endian. For each workload in order: u32 count, u8 columns (1: seconds only, 2: all), then column by
// column.
std::string pack_samples(const Evaluation&);
// Restores the samples; false when the bytes do not fit the workloads.
bool unpack_samples(const std::string& bytes, Evaluation&);

}  // namespace cultivar
