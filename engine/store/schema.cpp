// SPDX-License-Identifier: Apache-2.0
#include "engine/store/schema.hpp"

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>
#include <SQLiteCpp/Transaction.h>
#include <fmt/format.h>

#include <sqlite3.h>
#include <set>
#include <tuple>
#include <utility>

#include "evaluators/system/plain_text.hpp"

namespace cultivar {

namespace {

// STRICT makes SQLite refuse a value of the wrong type instead of storing it.
constexpr const char* kSchema = R"sql(
-- What was fixed at the start (config, task, environment), the run's state (state, stop_reason, elapsed_s), and the
-- version of the program that wrote last (version).
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;

-- Counters, updated in the same transaction as what they count; `status` reads only these.
CREATE TABLE tallies (key TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;

-- Each text is stored once, no matter how many of its configurations were tried.
CREATE TABLE sources (number INTEGER PRIMARY KEY, source_id TEXT NOT NULL UNIQUE, text TEXT NOT NULL) STRICT;

-- state: 0 proposed, 1 measured, 2 rejected. expelled: measured, but failed confirmation.
CREATE TABLE individuals (
  id INTEGER PRIMARY KEY, variant_id TEXT NOT NULL, source INTEGER NOT NULL REFERENCES sources(number),
  configuration TEXT NOT NULL, parents TEXT NOT NULL, op TEXT NOT NULL, model TEXT NOT NULL, usd REAL NOT NULL,
  tokens INTEGER NOT NULL, island INTEGER NOT NULL, note TEXT NOT NULL, proposed_at REAL NOT NULL,
  state INTEGER NOT NULL DEFAULT 0, expelled INTEGER NOT NULL DEFAULT 0, stage TEXT NOT NULL DEFAULT '',
  reason TEXT NOT NULL DEFAULT '', machine_code TEXT NOT NULL DEFAULT '', duplicate_of INTEGER NOT NULL DEFAULT 0,
  fitness REAL NOT NULL DEFAULT 0, workload_values TEXT NOT NULL DEFAULT '[]', judged_at REAL NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX individuals_by_variant ON individuals(variant_id);
CREATE INDEX individuals_by_fitness ON individuals(fitness) WHERE state = 1;
CREATE INDEX individuals_in_flight ON individuals(id) WHERE state = 0;

-- kind: 'search' or 'confirm': body is the evaluation as JSON without its samples; they are in column samples (rows.hpp).
-- kind 'late': exceeded a deadline, and was then evaluated again.
-- kind 'profile': body is the profile as JSON, samples are empty; all profiles of an individual are kept.
CREATE TABLE evaluations (
  number INTEGER PRIMARY KEY, individual INTEGER NOT NULL REFERENCES individuals(id), kind TEXT NOT NULL,
  body TEXT NOT NULL, samples BLOB NOT NULL, at REAL NOT NULL
) STRICT;
CREATE INDEX evaluations_by_individual ON evaluations(individual);

CREATE TABLE duels (
  number INTEGER PRIMARY KEY, challenger INTEGER NOT NULL, incumbent INTEGER NOT NULL, verdict TEXT NOT NULL,
  alpha REAL NOT NULL, report TEXT NOT NULL, at REAL NOT NULL
) STRICT;
CREATE INDEX duels_by_challenger ON duels(challenger);

-- Everything that changed the population, in order; `replay` recomputes each decision.
-- kind: see decision_kind.hpp. stream: the name of the random stream it drew from. body: JSON of what it depends on besides the history; for ask: the question (see requests).
CREATE TABLE decisions (
  seq INTEGER PRIMARY KEY, kind TEXT NOT NULL, individual INTEGER NOT NULL, stream TEXT NOT NULL, body TEXT NOT NULL,
  elapsed_s REAL NOT NULL
) STRICT;
CREATE INDEX decisions_of_promotion ON decisions(seq) WHERE kind = 'promote';

-- The log for people.
CREATE TABLE events (number INTEGER PRIMARY KEY, at REAL NOT NULL, kind TEXT NOT NULL, individual INTEGER NOT NULL,
  text TEXT NOT NULL) STRICT;
)sql";

// Added in version 2: the calls to language models and their answers.
constexpr const char* kExchanges = R"sql(
-- Each request is stored once, no matter how often it was sent.
CREATE TABLE requests (number INTEGER PRIMARY KEY, hash TEXT NOT NULL UNIQUE, body TEXT NOT NULL) STRICT;

-- One attempt at one model. state: 0 sent (outcome unknown if the process was killed), 1 arrived, 2 failed.
-- answer: JSON. error: the kind of failure. used_by: the individual made from the answer; 0: none (yet).
CREATE TABLE exchanges (
  number INTEGER PRIMARY KEY, call TEXT NOT NULL, op TEXT NOT NULL, model TEXT NOT NULL, attempt INTEGER NOT NULL,
  request INTEGER NOT NULL REFERENCES requests(number), reserved_input INTEGER NOT NULL,
  reserved_output INTEGER NOT NULL, reserved_usd REAL NOT NULL, sent_at REAL NOT NULL,
  state INTEGER NOT NULL DEFAULT 0, answer TEXT NOT NULL DEFAULT '', error TEXT NOT NULL DEFAULT '',
  message TEXT NOT NULL DEFAULT '', input INTEGER NOT NULL DEFAULT 0, cached INTEGER NOT NULL DEFAULT 0,
  cache_written INTEGER NOT NULL DEFAULT 0, output INTEGER NOT NULL DEFAULT 0, reasoning INTEGER NOT NULL DEFAULT 0,
  estimated INTEGER NOT NULL DEFAULT 0, usd REAL NOT NULL DEFAULT 0, over_at REAL NOT NULL DEFAULT 0,
  used_by INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX exchanges_by_call ON exchanges(call);
)sql";

// Added in version 3: the results of agents' tools.
constexpr const char* kToolResults = R"sql(
-- One call of a tool, in the order in which the calls ran. asking: the question (decision ask); turn: of its dialogue,
-- from 0. body: JSON (tool_results.hpp). No decision depends on when it ran.
CREATE TABLE tool_results (
  number INTEGER PRIMARY KEY, asking INTEGER NOT NULL, turn INTEGER NOT NULL, tool TEXT NOT NULL,
  failed INTEGER NOT NULL, device_s REAL NOT NULL, body TEXT NOT NULL, at REAL NOT NULL
) STRICT;
CREATE INDEX tool_results_by_asking ON tool_results(asking);
CREATE INDEX tool_results_by_tool ON tool_results(tool, failed, device_s);  -- all that status reads
)sql";

}  // namespace

void create_schema(SQLite::Database& db) {
  db.exec(kSchema);
  db.exec(kExchanges);
  db.exec(kToolResults);
  db.exec("PRAGMA user_version = " + std::to_string(kSchemaVersion));
}

void upgrade_schema(SQLite::Database& db) {
  if (schema_version(db) >= kSchemaVersion) return;
  SQLite::Transaction transaction(db, SQLite::TransactionBehavior::IMMEDIATE);
  if (schema_version(db) < 2) db.exec(kExchanges);
  if (schema_version(db) < 3) db.exec(kToolResults);
  db.exec("PRAGMA user_version = " + std::to_string(kSchemaVersion));
  transaction.commit();
}

int schema_version(SQLite::Database& db) {
  return db.execAndGet("PRAGMA user_version").getInt();
}

namespace {

using Objects = std::set<std::tuple<std::string, std::string, std::string>>;  // type, name, statement

Objects objects_of(SQLite::Database& db) {
  Objects objects;
  SQLite::Statement all(db, "SELECT type, name, coalesce(sql, '') FROM main.sqlite_master");
  while (all.executeStep())
    objects.emplace(all.getColumn(0).getString(), all.getColumn(1).getString(), all.getColumn(2).getString());
  return objects;
}

Objects objects_of_a_run() {
  SQLite::Database db(":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  create_schema(db);
  return objects_of(db);
}

}  // namespace

std::string foreign_object(SQLite::Database& db) {
  static const Objects known = objects_of_a_run();
  db.exec("PRAGMA trusted_schema = OFF");
  for (const auto& object : objects_of(db)) {
    const auto& [type, name, sql] = object;
    const bool own = type == "table" && name.starts_with("sqlite_");  // SQLite's own, as of ANALYZE
    if (!own && !known.contains(object)) return plain_line(type + " " + name, 100);
  }
  return {};
}

std::string tally_of_rejections(Stage stage) {
  return "rejected " + std::string(name_of(stage));
}

const std::vector<GrowingTable>& growing_tables() {
  static const std::vector<GrowingTable> tables{
      {"sources", "number"}, {"individuals", "id"}, {"evaluations", "number"}, {"duels", "number"},
      {"decisions", "seq"},  {"events", "number"},  {"requests", "number"},    {"tool_results", "number"}};
  return tables;
}

Error trouble(const SQLite::Exception& e, std::string doing, const std::filesystem::path& file) {
  std::string remedy;
  switch (e.getErrorCode()) {
    case SQLITE_FULL:
      remedy = ": the disk is full; all recorded steps are safe. Free disk space, then resume";
      break;
    case SQLITE_IOERR:
      remedy =
          ": the file system failed (disk full, quota or a lost mount?); all recorded steps are safe. Then "
          "resume";
      break;
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
      remedy = ": the folder or the file is not writable; check its owner and permissions";
      break;
    case SQLITE_BUSY:
      remedy = ": another process has locked the database";
      break;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      remedy = ": the database is damaged; " + remedy_of_damage(file.parent_path());
      break;
    default:
      break;
  }
  return {.doing = std::move(doing), .message = fmt::format("{}: {}{}", file.string(), e.what(), remedy)};
}

std::string remedy_of_damage(const std::filesystem::path& run_folder) {
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(run_folder / "checkpoints", none))
    if (entry.path().extension() == ".db")
      return fmt::format("`cultivar resume {}` restores the newest good checkpoint", run_folder.string());
  return "there is no checkpoint beside it. A copy of the folder helps, or what sqlite3's command .recover "
         "saves of run.db";
}

bool means_damage(const SQLite::Exception& e) {
  return e.getErrorCode() == SQLITE_CORRUPT || e.getErrorCode() == SQLITE_NOTADB;
}

}  // namespace cultivar
