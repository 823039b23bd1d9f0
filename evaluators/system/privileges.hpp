// SPDX-License-Identifier: Apache-2.0
// What a process gives up before it runs foreign code outside bubblewrap: the powers of root, and access to
// files. Seccomp filters come on top.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <vector>

#include "evaluators/system/error.hpp"

namespace cultivar {

enum class Privileges {
  kept,
  none,  // the same user, but no capabilities, now or later: an ordinary user also gains none from programs
  another_user,  // also another user and group that nothing on the machine belongs to; see can_change_user
};

// Neither Debian nor systemd gives this number to a user, and containers that map 65536 users have it.
inline constexpr uid_t other_user = 65533;

// Whether this process has what it takes to hand files to processes of another user and to end them: root's
// capabilities, which a container may lack. Whether the number exists here is only known once a process
// starts.
bool can_change_user();
// Whether any user may read this file or list this folder; its parents are not looked at.
bool readable_by_all(const std::filesystem::path&);
// Also whether any user can enter its parents.
bool reachable_by_all(const std::filesystem::path&);

// Call between fork and exec. Allocates nothing; on failure returns false and sets errno. Clears the
// parent-death signal.
bool give_up(Privileges kept);

// Restricts which files a child process may open, enforced by the kernel (Landlock) without root and without
// namespaces. Used where bubblewrap cannot run, as in most containers.
class FileAccessRules {
 public:
  // Allows everything below these paths and nothing else. Paths that do not exist are skipped. An Error says
  // why this machine does not support it.
  static Expected<FileAccessRules> make(const std::vector<std::filesystem::path>& readable,
                                        const std::vector<std::filesystem::path>& writable);
  FileAccessRules(FileAccessRules&&) noexcept;
  FileAccessRules& operator=(FileAccessRules&&) noexcept;
  ~FileAccessRules();

  // Restricts the calling thread, and the threads and processes that it starts from now on. May be called
  // between fork and exec: allocates nothing; on failure returns false and sets errno.
  bool enclose_this_thread() const;

 private:
  explicit FileAccessRules(int descriptor) : descriptor_(descriptor) {}
  int descriptor_ = -1;
};

}  // namespace cultivar
