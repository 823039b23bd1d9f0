// SPDX-License-Identifier: Apache-2.0
#include "engine/store/reclaim.hpp"

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Transaction.h>
#include <fmt/format.h>

#include "engine/store/checkpoint.hpp"
#include "engine/store/record_writer.hpp"
#include "engine/store/rows.hpp"
#include "engine/store/schema.hpp"

namespace cultivar {

namespace fs = std::filesystem;

namespace {

std::uintmax_t bytes_below(const fs::path& folder) {
  std::uintmax_t bytes = 0;
  std::error_code none;
  for (const auto& entry : fs::recursive_directory_iterator(folder, none))
    if (entry.is_regular_file(none)) bytes += entry.file_size(none);
  return bytes;
}

std::uintmax_t bytes_of(const RunFolder& folder) {
  std::uintmax_t bytes = bytes_below(folder.checkpoints()) + bytes_below(folder.damaged());
  for (const char* suffix : {"", "-wal", "-shm"}) {
    std::error_code none;
    const fs::path file = folder.database().string() + suffix;
    if (fs::is_regular_file(file, none)) bytes += fs::file_size(file, none);
  }
  return bytes;
}

void choose_kept(SQLite::Database& db) {
  db.exec("CREATE TEMP TABLE kept (id INTEGER PRIMARY KEY)");
  db.exec(fmt::format(
      "INSERT INTO temp.kept WITH RECURSIVE line (id) AS (  SELECT individual FROM decisions WHERE kind = "
      "'promote' UNION SELECT id FROM individuals WHERE op = 'seed'   UNION SELECT parent.value FROM line "
      "JOIN individuals i ON i.id = line.id, json_each(i.parents) parent) SELECT id FROM line UNION SELECT "
      "id FROM (SELECT id FROM individuals WHERE state = 1 ORDER BY fitness DESC LIMIT {})",
      kFittestKept));
}

// No samples for each workload.
std::string emptied(std::int64_t workloads) {
  Evaluation none;
  none.workloads.resize(static_cast<std::size_t>(workloads));
  return pack_samples(none);
}

std::int64_t remove_samples(SQLite::Database& db) {
  std::int64_t removed = 0;
  SQLite::Statement update(db, "UPDATE evaluations SET samples = ? WHERE number = ?");
  struct Row {
    std::int64_t number = 0, workloads = 0;
  };
  std::vector<Row> rows;
  each_row(
      db,
      "SELECT number, coalesce(json_array_length(body, '$.workloads'), 0), length(samples) FROM evaluations "
      "WHERE kind != 'profile' AND individual NOT IN (SELECT id FROM temp.kept)",
      [&](SQLite::Statement& row) {
        const auto workloads = column<std::int64_t>(row, 1);
        if (column<std::size_t>(row, 2) > emptied(workloads).size())
          rows.push_back({column<std::int64_t>(row, 0), workloads});
      });
  for (const Row& row : rows) {
    const std::string none = emptied(row.workloads);
    update.reset();
    update.bind(1, none.data(), static_cast<int>(none.size()));
    update.bind(2, row.number);
    removed += update.exec();
  }
  return removed;
}

// Those against the present best that are undecided may go on, from their times.
std::int64_t remove_times(SQLite::Database& db, IndividualId best) {
  return query(db,
               "UPDATE duels SET report = json_remove(report, '$.times') WHERE json_type(report, '$.times') "
               "IS NOT NULL AND NOT (verdict = 'undecided' AND incumbent = ?)",
               best)
      .exec();
}

}  // namespace

Expected<Reclaimed> reclaim(const RunFolder& folder, int checkpoints, bool damaged) {
  if (const std::string damage = damage_of(folder.database(), true); !damage.empty())
    return failure("gc", fmt::format("{} is damaged ({}): `cultivar resume` restores it first",
                                     folder.database().string(), damage));
  auto writer = RecordWriter::open(folder);
  if (!writer) return tl::make_unexpected(writer.error());
  Reclaimed done;
  done.bytes_before = bytes_of(folder);
  try {
    SQLite::Database& db = writer->record().database();
    {
      SQLite::Transaction transaction(db, SQLite::TransactionBehavior::IMMEDIATE);
      choose_kept(db);
      done.evaluations = remove_samples(db);
      done.duels = remove_times(db, writer->record().best().value_or(0));
      transaction.commit();
    }
    db.exec("DROP TABLE temp.kept");
    db.exec("VACUUM");
    each_row(db, "PRAGMA wal_checkpoint(TRUNCATE)", [](SQLite::Statement&) {});
  } catch (const SQLite::Exception& e) {
    return tl::make_unexpected(trouble(e, "gc", folder.database()));
  }
  if (auto made = make_checkpoint(folder, checkpoints); !made) return tl::make_unexpected(made.error());
  std::error_code ec;
  if (damaged) fs::remove_all(folder.damaged(), ec);
  done.damaged_bytes = bytes_below(folder.damaged());
  done.bytes_after = bytes_of(folder);
  return done;
}

}  // namespace cultivar
