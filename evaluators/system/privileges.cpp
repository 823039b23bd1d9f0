// SPDX-License-Identifier: Apache-2.0
#include "evaluators/system/privileges.hpp"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <linux/securebits.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace cultivar {
namespace {

struct Capabilities {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct words[2] = {};
};

bool mode_has(const std::filesystem::path& path, mode_t of_file, mode_t of_folder) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) return false;
  const mode_t wanted = S_ISDIR(facts.st_mode) ? of_folder : of_file;
  return (facts.st_mode & wanted) == wanted;
}

namespace fs = std::filesystem;

// The rights that every version of Landlock supports; rights added by later versions (truncate, ioctl) stay
// unrestricted. Only kRefer, of the second one, is restricted too: unhandled, the kernel refuses every rename
// from one folder to another, also below one path, which compilers' caches need.
constexpr std::uint64_t kRead =
    LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
constexpr std::uint64_t kWrite = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |
                                 LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_CHAR |
                                 LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |
                                 LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO |
                                 LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM;
constexpr std::uint64_t kRefer = LANDLOCK_ACCESS_FS_REFER;
constexpr std::uint64_t kOfFiles =
    LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE;

bool knows_renames() {
  return ::syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION) >= 2;
}

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

bool can_change_user() {
  Capabilities mine;
  if (::geteuid() != 0 || ::syscall(SYS_capget, &mine.header, mine.words) != 0) return false;
  unsigned wanted = 0;
  for (const unsigned capability : {CAP_SETUID, CAP_SETGID, CAP_KILL, CAP_CHOWN, CAP_DAC_OVERRIDE})
    wanted |= 1U << capability;
  return (mine.words[0].effective & wanted) == wanted;
}

bool readable_by_all(const std::filesystem::path& path) {
  return mode_has(path, S_IROTH, S_IROTH | S_IXOTH);
}

bool reachable_by_all(const std::filesystem::path& path) {
  std::error_code trouble;
  const auto real = std::filesystem::canonical(path, trouble);
  if (trouble || !readable_by_all(real)) return false;
  for (auto folder = real.parent_path(); folder != folder.root_path(); folder = folder.parent_path())
    if (!mode_has(folder, 0, S_IXOTH)) return false;
  return mode_has("/", 0, S_IXOTH);
}

// By system calls and not by functions of libc: these would change all threads of the parent, with which the
// child shares its memory.
bool give_up(Privileges kept) {
  if (kept == Privileges::kept) return true;
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return false;
  // Only root may do the next three, and only root needs them.
  for (unsigned long capability = 0; capability < 64; ++capability)
    ::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
  ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  ::prctl(PR_SET_SECUREBITS,
          SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED |
              SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED,
          0, 0, 0);
  if (kept == Privileges::another_user &&
      (::syscall(SYS_setgroups, 0, nullptr) != 0 ||
       ::syscall(SYS_setresgid, other_user, other_user, other_user) != 0 ||
       ::syscall(SYS_setresuid, other_user, other_user, other_user) != 0))
    return false;
  const Capabilities nothing;
  return ::syscall(SYS_capset, &nothing.header, nothing.words) == 0;
}

Expected<FileAccessRules> FileAccessRules::make(const std::vector<fs::path>& readable,
                                                const std::vector<fs::path>& writable) {
  landlock_ruleset_attr rules{};
  const std::uint64_t write = kWrite | (knows_renames() ? kRefer : 0);
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
