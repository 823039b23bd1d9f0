// SPDX-License-Identifier: Apache-2.0
#include "support/killing_vfs.hpp"

#include <sqlite3.h>
#include <atomic>
#include <csignal>
#include <stdexcept>

namespace cultivar::testing {

namespace {

std::atomic<std::int64_t> passed{0};
std::int64_t fatal = 0;
bool tears = false;
sqlite3_vfs* real_vfs = nullptr;

// The real file follows it in memory.
struct Wrapped {
  sqlite3_file base;
  sqlite3_file* real() { return reinterpret_cast<sqlite3_file*>(this + 1); }
};
sqlite3_file* real(sqlite3_file* file) {
  return reinterpret_cast<Wrapped*>(file)->real();
}
const sqlite3_io_methods* methods(sqlite3_file* file) {
  return real(file)->pMethods;
}

// Whether this is the last one.
bool is_fatal() {
  return ++passed == fatal;
}
void die() {
  raise(SIGKILL);
}

int write(sqlite3_file* file, const void* bytes, int count, sqlite3_int64 offset) {
  if (is_fatal()) {
    if (tears) methods(file)->xWrite(real(file), bytes, count / 2, offset);
    die();
  }
  return methods(file)->xWrite(real(file), bytes, count, offset);
}
int truncate(sqlite3_file* file, sqlite3_int64 size) {
  if (is_fatal()) die();
  return methods(file)->xTruncate(real(file), size);
}
int sync(sqlite3_file* file, int flags) {
  if (is_fatal()) die();
  return methods(file)->xSync(real(file), flags);
}
int remove(sqlite3_vfs*, const char* name, int sync_folder) {
  if (is_fatal()) die();
  return real_vfs->xDelete(real_vfs, name, sync_folder);
}

// The other calls are passed on.
template <auto Method, class... Args>
int forward(sqlite3_file* file, Args... args) {
  return (methods(file)->*Method)(real(file), args...);
}
using M = sqlite3_io_methods;
const sqlite3_io_methods kMethods{
    3,
    forward<&M::xClose>,
    forward<&M::xRead, void*, int, sqlite3_int64>,
    write,
    truncate,
    sync,
    forward<&M::xFileSize, sqlite3_int64*>,
    forward<&M::xLock, int>,
    forward<&M::xUnlock, int>,
    forward<&M::xCheckReservedLock, int*>,
    forward<&M::xFileControl, int, void*>,
    forward<&M::xSectorSize>,
    forward<&M::xDeviceCharacteristics>,
    forward<&M::xShmMap, int, int, int, void volatile**>,
    forward<&M::xShmLock, int, int, int>,
    [](sqlite3_file* file) { methods(file)->xShmBarrier(real(file)); },
    forward<&M::xShmUnmap, int>,
    forward<&M::xFetch, sqlite3_int64, int, void**>,
    forward<&M::xUnfetch, sqlite3_int64, void*>,
};

int open(sqlite3_vfs*, const char* name, sqlite3_file* file, int flags, int* given) {
  file->pMethods = nullptr;
  const int result = real_vfs->xOpen(real_vfs, name, real(file), flags, given);
  if (real(file)->pMethods != nullptr) file->pMethods = &kMethods;
  return result;
}

}  // namespace

void die_at_boundary(std::int64_t at, bool torn) {
  fatal = at;
  tears = torn;
  real_vfs = sqlite3_vfs_find(nullptr);
  if (real_vfs == nullptr) throw std::runtime_error("SQLite has no file access");
  static sqlite3_vfs killing = *real_vfs;
  killing.zName = "killing";
  killing.szOsFile = static_cast<int>(sizeof(Wrapped)) + real_vfs->szOsFile;
  killing.xOpen = open;
  killing.xDelete = remove;
  if (sqlite3_vfs_register(&killing, 1) != SQLITE_OK)
    throw std::runtime_error("cannot register the file access");
}

std::int64_t boundaries_passed() {
  return passed;
}

}  // namespace cultivar::testing
