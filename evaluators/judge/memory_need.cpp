// SPDX-License-Identifier: Apache-2.0
#include "evaluators/judge/memory_need.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>

namespace cultivar {

MemoryNeed memory_need(const Task& task, const Workload& workload, Target target) {
  double inputs = 0.0, outputs = 0.0, exact = 0.0;
  for (const TensorSpec& tensor : task.tensors) {
    double elements = 1.0;
    for (const std::int64_t extent : task.shape(tensor, workload)) elements *= static_cast<double>(extent);
    const double bytes = elements * static_cast<double>(size_of(task.dtype(tensor, workload)));
    (tensor.role == Role::input ? inputs : outputs) += bytes;
    if (tensor.role == Role::input) exact += elements * sizeof(double);
  }
  MemoryNeed need{.tensors = inputs + outputs, .worker = inputs + exact + outputs};
  if (target->on_host) {
    need.worker += inputs + outputs;  // the sandbox's
    need.largest_shared = std::max(inputs, outputs);
  }
  return need;
}

MemoryAllowed memory_allowed() {
  return {.file_bytes = limit_in_force(RLIMIT_FSIZE)};
}

std::optional<std::string> beyond_memory(const Task& task, std::span<const Workload> workloads, Target target,
                                         const MemoryAllowed& allowed) {
  const Workload* largest = nullptr;
  MemoryNeed need;
  for (const Workload& workload : workloads)
    if (const MemoryNeed own = memory_need(task, workload, target); !largest || own.worker > need.worker)
      largest = &workload, need = own;
  if (!largest) return std::nullopt;
  if (need.worker > allowed.memory.bytes)
    return fmt::format(
        "workload {} needs at least {} of memory ({} for its tensors; the rest for the copies and the exact "
        "values of a check), more than {}: choose smaller workloads, or allow more memory",
        largest->name, bytes_in_words(need.worker), bytes_in_words(need.tensors), allowed.memory.words);
  if (allowed.file_bytes && need.largest_shared > static_cast<double>(*allowed.file_bytes))
    return fmt::format(
        "workload {} shares {} with the sandbox in one piece, which is a file in memory, but this shell "
        "allows files of at most {} (ulimit -f): raise the limit, or choose smaller workloads",
        largest->name, bytes_in_words(need.largest_shared),
        bytes_in_words(static_cast<double>(*allowed.file_bytes)));
  return std::nullopt;
}

}  // namespace cultivar
