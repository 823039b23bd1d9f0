// SPDX-License-Identifier: Apache-2.0
// Whether a process ended because memory ran out.
#pragma once

#include <cstdint>
#include <string>

namespace cultivar {

// How many processes the kernel has killed for lack of memory, in this process's cgroup (v2) or, where that
// does not tell, on the whole machine. Compare two readings: one before, one after a process was killed.
std::uint64_t out_of_memory_kills();

// The limit that applies to this process: "the memory limit of 512 MiB (cgroup /batch.slice)", or "the 7.7
// GiB of this machine".
std::string memory_limit_in_words();

}  // namespace cultivar
