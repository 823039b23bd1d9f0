// SPDX-License-Identifier: Apache-2.0
// What a process gives up before it runs foreign code outside bubblewrap: the powers of root. Seccomp filters
// and FileAccessRules come on top.
#pragma once

#include <sys/types.h>

#include <filesystem>

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

}  // namespace cultivar
