// The tables of run.db. What each holds is said here; how they are written is journal.cpp, how they are read
// record.cpp.
#pragma once

#include <string>
#include <vector>

namespace SQLite {
class Database;
}

namespace cultivar {

inline constexpr int kSchemaVersion = 3;

// Makes all tables in an empty database.
void create_schema(SQLite::Database&);
// Brings a database of an older version, from 1 on, to this one, in one transaction. Nothing that it holds
// changes.
void upgrade_schema(SQLite::Database&);
// The version a database has; 0: it is empty or no run at all.
int schema_version(SQLite::Database&);

// The tables that grow by appending, with the column that orders them: what a salvage copies.
struct GrowingTable {
  std::string name, key;
};
const std::vector<GrowingTable>& growing_tables();

}  // namespace cultivar
