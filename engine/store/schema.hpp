// SPDX-License-Identifier: Apache-2.0
// The tables of run.db, documented in schema.cpp. record_writer.cpp writes them, record.cpp reads them.
#pragma once

#include <SQLiteCpp/Exception.h>

#include <filesystem>
#include <string>
#include <vector>

#include "evaluators/system/error.hpp"
#include "evaluators/verdict/evaluation.hpp"

namespace SQLite {
class Database;
}

namespace cultivar {

inline constexpr int kSchemaVersion = 3;

// Creates all tables in an empty database.
void create_schema(SQLite::Database&);
// Upgrades a database of any older version to this one, in one transaction. Existing data does not change.
void upgrade_schema(SQLite::Database&);
// A database's version; 0: it is empty or not a run.
int schema_version(SQLite::Database&);

// What the database holds besides the tables and indexes of a run, for example "the view meta"; empty if
// nothing. Views, triggers, virtual tables and generated columns run statements of whoever wrote the file,
// without an end. From here on the database calls no function for them that could do harm.
std::string foreign_object(SQLite::Database&);

// The key in `tallies` of how many were rejected at a stage.
std::string tally_of_rejections(Stage);

// The tables that grow by appending, with the column that orders them: what a salvage copies.
struct GrowingTable {
  std::string name, key;
};
const std::vector<GrowingTable>& growing_tables();

// Converts errors of SQLite and the file system to messages with a remedy.
Error trouble(const SQLite::Exception&, std::string doing, const std::filesystem::path& file);
std::string remedy_of_damage(const std::filesystem::path& run_folder);  // what helps, if anything is there
bool means_damage(const SQLite::Exception&);  // the file is not a database, or is damaged

}  // namespace cultivar
