// SPDX-License-Identifier: Apache-2.0
#include "evaluators/system/privileges.hpp"

#include <linux/capability.h>
#include <linux/securebits.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

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

}  // namespace cultivar
