// SPDX-License-Identifier: Apache-2.0
#include "engine/store/trouble.hpp"

#include <fmt/format.h>
#include <sqlite3.h>

#include <string>
#include <utility>

namespace cultivar {

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
