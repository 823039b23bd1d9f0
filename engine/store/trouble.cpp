// SPDX-License-Identifier: Apache-2.0
#include "engine/store/trouble.hpp"

#include <fmt/format.h>
#include <sqlite3.h>

namespace cultivar {

Error trouble(const SQLite::Exception& e, std::string doing, const std::filesystem::path& file) {
  const char* remedy = "";
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
      remedy = ": the database is damaged; `cultivar resume` restores the newest good checkpoint";
      break;
    default:
      break;
  }
  return {.doing = std::move(doing), .message = fmt::format("{}: {}{}", file.string(), e.what(), remedy)};
}

bool means_damage(const SQLite::Exception& e) {
  return e.getErrorCode() == SQLITE_CORRUPT || e.getErrorCode() == SQLITE_NOTADB;
}

}  // namespace cultivar
