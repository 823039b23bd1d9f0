// SPDX-License-Identifier: Apache-2.0
// How much memory this process and its children may have, and whether a process ended because it ran out.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

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

}  // namespace cultivar
