// SPDX-License-Identifier: Apache-2.0
// Faults of the machine that say nothing about the variant whose evaluation met them: the evaluation is
// repeated, and decides nothing.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace cultivar {

enum class HostFault {
  killed,            // a process was killed by a signal that no variant can send
  out_of_memory,     // the kernel killed a process at a memory limit
  memory_held,       // other programs hold the device's memory
  cache_lost,        // a compiled variant is no longer in the cache
  cache_unwritable,  // full disk, permissions
  busy,              // runs could not be told from the noise of the machine
  launcher_failed,   // the launcher started no worker
  worker_lost        // a worker ended in another way, or does not start
};

std::string_view name_of(HostFault);  // as in a record
std::optional<HostFault> host_fault_named(std::string_view);
std::string_view words_of(HostFault);  // "the worker was lost"

// True if a variant could cause it, too, for example by the memory that it needs: then a kernel that is known
// to work, evaluated in between, tells which of the two it is.
bool may_be_the_variants(HostFault);

}  // namespace cultivar
