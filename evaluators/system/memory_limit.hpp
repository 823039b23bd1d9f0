// SPDX-License-Identifier: Apache-2.0
// How much memory this process and its children may have, whether a process ended because it ran out,
// and the other limits of the shell.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace cultivar {

// "23.6 GiB", "512 MiB".
std::string bytes_in_words(double bytes);

// How many processes the kernel has killed for lack of memory, in this process's cgroup or, where that does
// not tell, on the whole machine. Compare two readings: one before, one after a process was killed.
std::uint64_t out_of_memory_kills();

struct MemoryLimit {
  double bytes = 0.0;
  std::string words;  // "the memory limit of 512 MiB (cgroup /batch.slice)", or "the 7.7 GiB of this machine"
};
// The lowest limit on the memory of this process and its children together: of its cgroups (v1 or v2), or of
// the machine.
MemoryLimit memory_limit();
// The same for files elsewhere, for tests: of /proc/self/cgroup, and what lies below /sys/fs/cgroup.
MemoryLimit memory_limit(const std::string& own_cgroups, const std::filesystem::path& cgroup_files,
                         double machine_bytes);
// The same, or the limit on the addresses of this one process if that is lower: "... (ulimit -v)".
MemoryLimit memory_limit_of_a_process();

inline std::string memory_limit_in_words() {
  return memory_limit().words;
}

// The limits that whoever started this process has set for it (`ulimit`, setrlimit). Children inherit them.

// `resource` is an RLIMIT_* constant. The limit in force; nullopt: none.
std::optional<std::size_t> limit_in_force(int resource);
// What a child gets that should have the limit `wanted`: the lower of both.
std::size_t within_limit_in_force(int resource, std::size_t wanted);
// The same for messages, with its origin: "4.0 GiB", or "3.8 GiB (ulimit -v)".
std::string limit_in_words(int resource, std::size_t wanted);

// The files that a search with a few workers has open at once.
inline constexpr std::size_t kNeededFiles = 128;
// Lets this process open as many files as the hard limit allows, at most 1024.
void raise_open_files();

// A limit that keeps Cultivar, or a part of it, from working.
struct TightLimit {
  std::string option;  // the shell's command: "ulimit -n"
  bool fatal = false;  // nothing works; otherwise something may fail
  std::string text;    // a sentence with the limit, its value, and what needs more
};
std::vector<TightLimit> tight_limits();

}  // namespace cultivar
