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
#include <cerrno>
#include <cstring>
#include <ctime>
#include <optional>

#include "engine/store/schema.hpp"
#include "engine/store/trouble.hpp"

namespace cultivar {

namespace fs = std::filesystem;

namespace {

bool sync_path(const fs::path& path, int flags) {
  const int descriptor = open(path.c_str(), flags | O_CLOEXEC);
  if (descriptor < 0) return false;
  const bool synced = fsync(descriptor) == 0;
  const int why = errno;
  close(descriptor);
  errno = why;
  return synced;
}

// After this the new name is on the disk, and so is what it names.
Expected<void> put_in_place(const fs::path& temporary, const fs::path& file) {
  if (!sync_path(temporary, O_RDWR) || std::rename(temporary.c_str(), file.c_str()) != 0 ||
      !sync_path(file.parent_path(), O_RDONLY | O_DIRECTORY))
    return failure("write", fmt::format("{}: {}", file.string(), strerror(errno)));
  return {};
}

SQLite::Database open_unchanging(const fs::path& file) {
  // immutable: nobody writes a checkpoint, and no -shm file is wanted beside it. '?' and '%' would end the
  // path.
  std::string path;
  for (const char c : fs::absolute(file).string())
    path += c == '?'   ? std::string("%3f")
            : c == '%' ? std::string("%25")
            : c == '#' ? std::string("%23")
                       : std::string(1, c);
  return {"file:" + path + "?immutable=1", SQLite::OPEN_READONLY | SQLite::OPEN_URI};
}

std::string check(SQLite::Database& db, bool thorough) {
  if (schema_version(db) == 0) return "it holds no run";
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

// All or nothing: everything that the damaged database holds beyond the checkpoint.
bool salvage(const fs::path& database, const fs::path& damaged) {
  try {
    SQLite::Database db(database.string(), SQLite::OPEN_READWRITE);
    {
      SQLite::Statement attach(db, "ATTACH ? AS damaged");
      attach.bind(1, damaged.string());
      attach.exec();
    }
    upgrade_schema(db);  // the checkpoint may be older than the program that wrote the rest
    // A version 1 has no exchanges, a version 2 no tool results. Otherwise every table must be there: one
    // that is missing is a loss.
    const int version = db.execAndGet("PRAGMA damaged.user_version").getInt();
    const bool has_exchanges = version != 1, has_results = version != 1 && version != 2;
    SQLite::Transaction transaction(db);
    // Their rows change after they were written.
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

std::optional<std::int64_t> individuals_in(const fs::path& file) {
  try {
    SQLite::Database db(file.string(), SQLite::OPEN_READONLY);
    return db.execAndGet("SELECT coalesce(max(id), 0) FROM individuals").getInt64();
  } catch (const SQLite::Exception&) {
    return std::nullopt;
  }
}

}  // namespace

std::vector<fs::path> checkpoints_newest_first(const RunFolder& folder) {
  std::vector<fs::path> files;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder.checkpoints(), none))
    if (entry.path().extension() == ".db") files.push_back(entry.path());
  std::ranges::sort(files, std::greater());  // the names begin with the number of decisions, in ten digits
  return files;
}

std::string damage_of(const fs::path& database, bool thorough) {
  std::error_code none;
  if (!fs::exists(database, none)) return "it is missing";
  try {
    SQLite::Database db(database.string(), SQLite::OPEN_READONLY);
    db.setBusyTimeout(5000);
    return check(db, thorough);
  } catch (const SQLite::Exception& e) {
    if (means_damage(e) || e.getErrorCode() == SQLITE_ERROR) return e.what();  // ERROR: a table is gone
    return {};  // trouble of another kind, which opening for writing will report
  }
}

Expected<fs::path> make_checkpoint(const RunFolder& folder, int keep) {
  std::error_code ec;
  fs::create_directories(folder.checkpoints(), ec);
  if (ec) return failure("checkpoint", folder.checkpoints().string() + ": " + ec.message());
  const fs::path temporary = folder.checkpoints() / "unfinished";
  fs::remove(temporary, ec);
  fs::path file;
  try {
    std::int64_t decisions = 0;
    {
      SQLite::Database from(folder.database().string(), SQLite::OPEN_READONLY);
      SQLite::Database to(temporary.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
      SQLite::Backup backup(to, from);
      // All pages in one step: one read transaction, which in WAL mode the search's writes do not disturb.
      backup.executeStep(-1);
    }
    {
      SQLite::Database copy = open_unchanging(temporary);
      if (const std::string damage = check(copy, true); !damage.empty())
        return failure("checkpoint",
                       "the record is damaged (" + damage + "); stop and resume to go back to a checkpoint");
      decisions = copy.execAndGet("SELECT coalesce(max(seq), 0) FROM decisions").getInt64();
    }
    file = folder.checkpoints() / fmt::format("{:010}.db", decisions);
  } catch (const SQLite::Exception& e) {
    fs::remove(temporary, ec);
    return tl::make_unexpected(trouble(e, "checkpoint", temporary));
  }
  if (auto placed = put_in_place(temporary, file); !placed) return tl::make_unexpected(placed.error());
  const auto files = checkpoints_newest_first(folder);
  for (std::size_t i = static_cast<std::size_t>(std::max(1, keep)); i < files.size(); ++i)
    fs::remove(files[i], ec);
  return file;
}

Expected<std::string> recover(const RunFolder& folder, const std::string& damage) {
  fs::path good;
  for (const fs::path& file : checkpoints_newest_first(folder)) {
    try {
      SQLite::Database db = open_unchanging(file);
      if (check(db, true).empty()) {
        good = file;
        break;
      }
    } catch (const SQLite::Exception&) {
      // not this one
    }
  }
  if (good.empty())
    return failure("open run",
                   fmt::format("{} is damaged ({}) and there is no good checkpoint in {}. Nothing was "
                               "changed; `sqlite3 run.db .recover` may still save rows",
                               folder.database().string(), damage, folder.checkpoints().string()));
  char when[32];
  const std::time_t now = std::time(nullptr);
  std::strftime(when, sizeof when, "%Y%m%dT%H%M%SZ", std::gmtime(&now));
  fs::path aside = folder.damaged() / when;
  for (int i = 2; fs::exists(aside); ++i) aside = folder.damaged() / fmt::format("{}-{}", when, i);
  std::error_code ec;
  fs::create_directories(aside, ec);
  if (ec) return failure("open run", aside.string() + ": " + ec.message());

  // The copy is ready before anything is moved, so a kill in between leaves either the damaged file or the
  // good one.
  const fs::path temporary = folder.path() / "run.db.restored";
  fs::copy_file(good, temporary, fs::copy_options::overwrite_existing, ec);
  if (ec) return failure("open run", temporary.string() + ": " + ec.message());
  for (const char* suffix : {"", "-wal", "-shm"}) {
    const fs::path from = folder.database().string() + suffix;
    if (!fs::exists(from)) continue;
    fs::copy_file(from, aside / from.filename(), ec);
    if (ec) return failure("open run", (aside / from.filename()).string() + ": " + ec.message());
  }
  for (const char* suffix : {"-wal", "-shm"}) fs::remove(folder.database().string() + suffix, ec);
  if (auto placed = put_in_place(temporary, folder.database()); !placed)
    return tl::make_unexpected(placed.error());

  const auto before = individuals_in(folder.database());
  const auto there = individuals_in(aside / "run.db");
  const bool saved = salvage(folder.database(), aside / "run.db");
  std::string lost = "nothing that was recorded was lost";
  if (!saved)
    lost = there && before && *there >= *before
               ? fmt::format("lost: everything after the checkpoint, {} of {} individuals", *there - *before,
                             *there)
               : "lost: everything after the checkpoint; how much cannot be read any more";
  return fmt::format(
      "run.db was damaged ({}); restored checkpoint {} with {} individuals; {}. The damaged files are in {}",
      damage, good.filename().string(), before.value_or(0), lost, aside.string());
}

Expected<void> write_atomically(const fs::path& file, const std::string& bytes) {
  const fs::path temporary = file.string() + ".tmp" + std::to_string(getpid());
  const int descriptor = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor < 0) return failure("write", temporary.string() + ": " + strerror(errno));
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t n = write(descriptor, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      const int why = errno;
      close(descriptor);
      unlink(temporary.c_str());
      return failure("write", temporary.string() + ": " + strerror(why));
    }
    done += static_cast<std::size_t>(n);
  }
  close(descriptor);
  return put_in_place(temporary, file);
}

}  // namespace cultivar
