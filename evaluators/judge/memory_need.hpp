// SPDX-License-Identifier: Apache-2.0
// Whether a workload can be evaluated at all with the memory that there is, before anything is allocated.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "evaluators/system/memory_limit.hpp"
#include "evaluators/target/traits.hpp"
#include "evaluators/task/task.hpp"

namespace cultivar {

// What a worker holds at once for a check of one workload, in bytes; a kernel's workspace comes on top.
struct MemoryNeed {
  double tensors = 0.0;         // inputs and outputs, once
  double worker = 0.0;          // in the memory of the host: copies, and the exact values of the inputs
  double largest_shared = 0.0;  // of the parts that it shares with a sandbox, each a file in memory; 0: none
};
MemoryNeed memory_need(const Task&, const Workload&, Target);

// What the machine, the cgroups and the shell allow a worker.
struct MemoryAllowed {
  MemoryLimit memory = memory_limit_of_a_process();
  std::optional<std::size_t> file_bytes;  // nullopt: no limit
};
MemoryAllowed memory_allowed();

// Why the largest of these workloads can never be evaluated here, with its name, its bytes and the limit;
// nullopt: all fit.
std::optional<std::string> beyond_memory(const Task&, std::span<const Workload>, Target,
                                         const MemoryAllowed& = memory_allowed());

}  // namespace cultivar
