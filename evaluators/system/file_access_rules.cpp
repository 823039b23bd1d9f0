// SPDX-License-Identifier: Apache-2.0
#include "evaluators/system/file_access_rules.hpp"

#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace cultivar {
namespace {

namespace fs = std::filesystem;

// The rights that every version of Landlock supports; rights added by later versions (truncate, ioctl) stay
// unrestricted.
constexpr std::uint64_t kRead =
    LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
constexpr std::uint64_t kWrite = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |
                                 LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_CHAR |
                                 LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |
                                 LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO |
                                 LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM;
// Since version 2 it can allow to move a file to another folder, LANDLOCK_ACCESS_FS_REFER, which is otherwise
// forbidden; PoCL does so with what it compiled.
constexpr std::uint64_t kMove = std::uint64_t{1} << 13;
constexpr std::uint64_t kOfFiles =
    LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE;

bool allow(int ruleset, const fs::path& path, std::uint64_t access) {
  const int descriptor = ::open(path.c_str(), O_PATH | O_CLOEXEC);
  if (descriptor < 0) return errno == ENOENT || errno == ENOTDIR;
  std::error_code ignored;
  landlock_path_beneath_attr rule{};
  rule.allowed_access = fs::is_directory(path, ignored) ? access : access & kOfFiles;
  rule.parent_fd = descriptor;
  const bool done = ::syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == 0;
  ::close(descriptor);
  return done;
}

}  // namespace

Expected<FileAccessRules> FileAccessRules::make(const std::vector<fs::path>& readable,
                                                const std::vector<fs::path>& writable) {
  const long version = ::syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  const std::uint64_t write = version >= 2 ? kWrite | kMove : kWrite;
  landlock_ruleset_attr rules{};
  rules.handled_access_fs = kRead | write;
  const auto descriptor =
      static_cast<int>(::syscall(SYS_landlock_create_ruleset, &rules, sizeof rules.handled_access_fs, 0));
  if (descriptor < 0)
    return failure("landlock", std::string("the kernel does not support Landlock: ") + std::strerror(errno));
  FileAccessRules walls(descriptor);
  bool done = true;
  for (const fs::path& path : readable) done = done && allow(descriptor, path, kRead);
  for (const fs::path& path : writable) done = done && allow(descriptor, path, kRead | write);
  if (!done)
    return failure("landlock", std::string("the kernel rejected a Landlock rule: ") + std::strerror(errno));
  return walls;
}

bool FileAccessRules::enclose_this_thread() const {
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::syscall(SYS_landlock_restrict_self, descriptor_, 0) == 0;
}

FileAccessRules::FileAccessRules(FileAccessRules&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)) {}
FileAccessRules& FileAccessRules::operator=(FileAccessRules&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}
FileAccessRules::~FileAccessRules() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace cultivar
