// SPDX-License-Identifier: Apache-2.0
#include "engine/store/checkpoint.hpp"

#include <SQLiteCpp/Backup.h>
#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>
#include <SQLiteCpp/Transaction.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <unistd.h>
#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <optional>

#include "engine/store/schema.hpp"
#include "engine/store/witness.hpp"
#include "evaluators/system/files.hpp"

namespace cultivar {

namespace fs = std::filesystem;

namespace {

SQLite::Database open_unchanging(const fs::path& file) {
  // immutable: no process writes a checkpoint, and no -shm file should be created next to it. '?' and '%'
  // would end the path.
  std::string path;
  for (const char c : fs::absolute(file).string())
    path += c == '?'   ? std::string("%3f")
            : c == '%' ? std::string("%25")
            : c == '#' ? std::string("%23")
                       : std::string(1, c);
  return {"file:" + path + "?immutable=1", SQLite::OPEN_READONLY | SQLite::OPEN_URI};
}

std::string check(SQLite::Database& db, bool thorough) {
  const int version = schema_version(db);
  if (version == 0) return "it does not hold a run";
  if (version > kSchemaVersion) return {};  // refused when it is opened
  if (const std::string foreign = foreign_object(db); !foreign.empty())
    return fmt::format("it holds the {}, which no run has", foreign);
  static constexpr const char* kNeeded[] = {"meta", "tallies", "sources", "individuals", "decisions"};
  std::vector<std::string> questions;
  if (thorough)
    questions.emplace_back("PRAGMA quick_check(1)");
  else
    for (const char* table : kNeeded) questions.push_back(fmt::format("PRAGMA quick_check({})", table));
  for (const std::string& question : questions) {
    SQLite::Statement answer(db, question);
    while (answer.executeStep())
      if (const std::string text = answer.getColumn(0).getString(); text != "ok") return text;
  }
  if (db.execAndGet("SELECT count(*) FROM individuals").getInt64() !=
      db.execAndGet("SELECT coalesce(max(id), 0) FROM individuals").getInt64())
    return "individuals are missing";
  if (db.execAndGet("SELECT count(*) FROM decisions").getInt64() !=
      db.execAndGet("SELECT coalesce(max(seq), 0) FROM decisions").getInt64())
    return "decisions are missing";
  return {};
}

// A file that is to have another name at the end, or none.
class RemovedAtEnd {
 public:
  explicit RemovedAtEnd(fs::path file) : file_(std::move(file)) {}
  RemovedAtEnd(const RemovedAtEnd&) = delete;
  RemovedAtEnd& operator=(const RemovedAtEnd&) = delete;
  ~RemovedAtEnd() {
    std::error_code none;
    for (const char* suffix : {"", "-journal"}) fs::remove(file_.string() + suffix, none);
  }

 private:
  fs::path file_;
};

// nullopt: it cannot be read, or is not to be read.
std::optional<std::int64_t> individuals_in(const fs::path& file) {
  try {
    if (!fs::is_regular_file(file)) throw SQLite::Exception("it is not a regular file");
    SQLite::Database db(file.string(), SQLite::OPEN_READONLY);
    if (!foreign_object(db).empty()) return std::nullopt;
    return db.execAndGet("SELECT coalesce(max(id), 0) FROM individuals").getInt64();
  } catch (const SQLite::Exception&) {
    return std::nullopt;
  }
}

// Copies everything that the damaged database holds beyond the checkpoint, all or nothing.
bool salvage(const fs::path& database, const fs::path& damaged) {
  try {
    if (!individuals_in(damaged)) return false;  // nothing is read from what another program wrote
    if (!fs::is_regular_file(database)) throw SQLite::Exception("it is not a regular file");
    SQLite::Database db(database.string(), SQLite::OPEN_READWRITE);
    {
      SQLite::Statement attach(db, "ATTACH ? AS damaged");
      attach.bind(1, damaged.string());
      attach.exec();
    }
    upgrade_schema(db);  // the checkpoint may be older than the program that wrote the rest
    // Version 1 has no exchanges, version 2 no tool results. All other tables must exist: a missing one means
    // lost data.
    const int version = db.execAndGet("PRAGMA damaged.user_version").getInt();
    const bool has_exchanges = version != 1, has_results = version != 1 && version != 2;
    SQLite::Transaction transaction(db);
    // The rows of these tables can change after they were inserted.
    for (const char* whole : {"meta", "tallies", "individuals", "exchanges"})
      if (has_exchanges || whole != std::string_view("exchanges"))
        db.exec(fmt::format("INSERT OR REPLACE INTO main.{0} SELECT * FROM damaged.{0}", whole));
    for (const GrowingTable& table : growing_tables())
      if (table.name != "individuals" && (has_exchanges || table.name != "requests") &&
          (has_results || table.name != "tool_results"))
        db.exec(
            fmt::format("INSERT INTO main.{0} SELECT * FROM damaged.{0} WHERE {1} > (SELECT "
                        "coalesce(max({1}), 0) FROM main.{0})",
                        table.name, table.key));
    if (!check(db, true).empty()) return false;  // rolls back
    transaction.commit();
    return true;
  } catch (const SQLite::Exception&) {
    return false;
  }
}

}  // namespace

std::vector<fs::path> checkpoints_newest_first(const RunFolder& folder) {
  std::vector<fs::path> files;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder.checkpoints(), none))  // opening a pipe never ends
    if (entry.path().extension() == ".db" && entry.is_regular_file(none)) files.push_back(entry.path());
  std::ranges::sort(files, std::greater());  // the names start with the number of decisions, in ten digits
  return files;
}

std::string damage_of(const fs::path& database, bool thorough) {
  std::error_code none;
  if (!fs::exists(database, none)) return "it is missing";
  if (!fs::is_regular_file(database, none)) return "it is not a regular file";
  try {
    SQLite::Database db(database.string(), SQLite::OPEN_READONLY);
    db.setBusyTimeout(5000);
    return check(db, thorough);
  } catch (const SQLite::Exception& e) {
    if (means_damage(e) || e.getErrorCode() == SQLITE_ERROR) return e.what();  // ERROR: a table is missing
    return {};  // any other error is reported when the database is opened for writing
  }
}

Expected<fs::path> make_checkpoint(const RunFolder& folder, int keep) {
  std::error_code ec;
  fs::create_directories(folder.checkpoints(), ec);
  if (ec) return failure("checkpoint", folder.checkpoints().string() + ": " + ec.message());
  const fs::path temporary = folder.checkpoints() / "unfinished";
  const RemovedAtEnd unfinished(temporary);  // in any case: it may be what fills the disk
  fs::remove(temporary, ec);
  fs::path file;
  try {
    std::int64_t decisions = 0;
    {
      SQLite::Database from(folder.database().string(), SQLite::OPEN_READONLY);
      SQLite::Database to(temporary.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
      SQLite::Backup backup(to, from);
      // All pages in one step: a single read transaction; in WAL mode concurrent writes do not affect it.
      backup.executeStep(-1);
    }
    {
      SQLite::Database copy = open_unchanging(temporary);
      if (const std::string damage = check(copy, true); !damage.empty())
        return failure("checkpoint", "the record is damaged (" + damage +
                                         "); stop the search and resume it to restore a checkpoint");
      decisions = copy.execAndGet("SELECT coalesce(max(seq), 0) FROM decisions").getInt64();
    }
    file = folder.checkpoints() / fmt::format("{:010}.db", decisions);
  } catch (const SQLite::Exception& e) {
    return tl::make_unexpected(trouble(e, "checkpoint", temporary));
  }
  if (auto placed = put_in_place(temporary, file); !placed) return tl::make_unexpected(placed.error());
  const auto files = checkpoints_newest_first(folder);
  for (std::size_t i = static_cast<std::size_t>(std::max(1, keep)); i < files.size(); ++i)
    fs::remove(files[i], ec);
  return file;
}

namespace {

// The newest checkpoint that is intact; empty if there is none.
fs::path good_checkpoint(const RunFolder& folder) {
  for (const fs::path& file : checkpoints_newest_first(folder)) {
    try {
      SQLite::Database db = open_unchanging(file);
      if (check(db, true).empty()) return file;
    } catch (const SQLite::Exception&) {
      // this checkpoint is damaged too; try the next
    }
  }
  return {};
}

// copy_file says "Input/output error" on a full disk.
tl::unexpected<Error> not_copied(const fs::path& from, const fs::path& to, const std::error_code& why) {
  std::error_code none;
  const bool full = fs::space(to.parent_path(), none).available < fs::file_size(from, none);
  return failure(
      "open run",
      to.string() + ": " +
          (full ? "the disk is full, and nothing was changed. Free disk space, then resume" : why.message()));
}

// Puts the checkpoint in the place of the database, whose files it copies aside. Returns the folder of these.
Expected<fs::path> put_checkpoint_back(const RunFolder& folder, const fs::path& good) {
  char when[32];
  const std::time_t now = std::time(nullptr);
  std::strftime(when, sizeof when, "%Y%m%dT%H%M%SZ", std::gmtime(&now));
  fs::path aside = folder.damaged() / when;
  for (int i = 2; fs::exists(aside); ++i) aside = folder.damaged() / fmt::format("{}-{}", when, i);
  std::error_code ec;
  fs::create_directories(aside, ec);
  if (ec) return failure("open run", aside.string() + ": " + ec.message());

  // The copy is complete before anything is moved, so a kill in between leaves either the damaged file or the
  // restored one.
  const fs::path temporary = folder.path() / "run.db.restored";
  const RemovedAtEnd unfinished(temporary);
  fs::copy_file(good, temporary, fs::copy_options::overwrite_existing, ec);
  if (ec) return not_copied(good, temporary, ec);
  for (const char* suffix : {"", "-wal", "-shm"}) {
    const fs::path from = folder.database().string() + suffix;
    if (!fs::exists(from)) continue;
    if (fs::is_regular_file(from))
      fs::copy_file(from, aside / from.filename(), ec);
    else
      fs::rename(from, aside / from.filename(), ec);
    if (ec) return not_copied(from, aside / from.filename(), ec);
  }
  for (const char* suffix : {"-wal", "-shm"}) fs::remove(folder.database().string() + suffix, ec);
  if (auto placed = put_in_place(temporary, folder.database()); !placed)
    return tl::make_unexpected(placed.error());

  return aside;
}

}  // namespace

Expected<std::string> recover(const RunFolder& folder, const std::string& damage) {
  const fs::path good = good_checkpoint(folder);
  if (good.empty())
    return failure("open run",
                   fmt::format("{} is damaged ({}) and {} holds no good checkpoint. Nothing was "
                               "changed; `sqlite3 run.db .recover` may still recover rows",
                               folder.database().string(), damage, folder.checkpoints().string()));
  const auto moved = put_checkpoint_back(folder, good);
  if (!moved) return tl::make_unexpected(moved.error());
  const fs::path& aside = *moved;
  const auto before = individuals_in(folder.database());
  const auto there = individuals_in(aside / "run.db");
  const bool saved = salvage(folder.database(), aside / "run.db");
  std::string lost = "no recorded data was lost";
  if (!saved)
    lost = there && before && *there >= *before
               ? fmt::format("lost: everything after the checkpoint, {} of {} individuals", *there - *before,
                             *there)
               : "lost: everything after the checkpoint; the number of lost individuals is unknown";
  return fmt::format(
      "run.db was damaged ({}); restored checkpoint {} with {} individuals; {}. The damaged files are in {}",
      damage, good.filename().string(), before.value_or(0), lost, aside.string());
}

Expected<std::string> restore_lost_steps(const RunFolder& folder) {
  try {
    const auto witness = witnessed(folder);
    Extent has;
    {
      SQLite::Database db(folder.database().string(), SQLite::OPEN_READONLY);
      db.setBusyTimeout(5000);
      has = extent_of(db);
    }
    // The names of checkpoints begin with their number of decisions, so usually none needs to be read.
    const auto files = checkpoints_newest_first(folder);
    const bool newer =
        !files.empty() && std::atoll(files.front().filename().string().c_str()) > has.decisions;
    if (!newer && (!witness || missing_text(has, *witness).empty())) return std::string();
    const fs::path good = newer ? good_checkpoint(folder) : fs::path();
    Extent restored;
    if (!good.empty()) {
      SQLite::Database db = open_unchanging(good);
      restored = extent_of(db);
    }
    const bool restores = restored.decisions > has.decisions;
    const Extent& now = restores ? restored : has;
    const std::string lost = witness ? missing_text(now, *witness) : std::string();
    const std::string why = fmt::format(
        "run.db lacks recorded steps ({}): its log run.db-wal was deleted, cut or damaged, or an older "
        "run.db was put in its place",
        missing_text(has, witness ? *witness : restored));
    const std::string what = lost.empty()
                                 ? (witness ? "no recorded data was lost" : "what came later is lost")
                                 : "lost: " + lost + "; the search makes other ones instead";
    if (!restores) return fmt::format("{}; no checkpoint is newer; {}", why, what);
    const auto aside = put_checkpoint_back(folder, good);
    if (!aside) return tl::make_unexpected(aside.error());
    return fmt::format("{}; restored checkpoint {} with {} individuals; {}. The former files are in {}", why,
                       good.filename().string(), restored.individuals, what, aside->string());
  } catch (const SQLite::Exception& e) {
    return tl::make_unexpected(trouble(e, "open run", folder.database()));
  }
}

}  // namespace cultivar
