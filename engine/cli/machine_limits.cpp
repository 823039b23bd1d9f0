// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/machine_limits.hpp"

#include "evaluators/judge/memory_need.hpp"
#include "evaluators/system/error.hpp"
#include "evaluators/system/resource_limits.hpp"

namespace cultivar {

std::vector<std::string> limit_warnings() {
  std::vector<std::string> warnings;
  for (const TightLimit& limit : tight_limits()) {
    if (limit.fatal) throw InputError(limit.text);
    warnings.push_back(limit.text);
  }
  return warnings;
}

void require_limits() {
  (void)limit_warnings();
}

void check_memory(const Task& task, const std::vector<Workload>& workloads, Target target) {
  if (const auto why = beyond_memory(task, workloads, target)) throw InputError(*why);
}

void check_memory(const Config& config, const ConfigPlace& from) {
  if (!config.evaluation.launcher.empty()) return;
  for (const auto& [key, set] : {std::pair{"workloads", &config.workloads}, {"holdout", &config.holdout}})
    if (const WorkloadSet* const named = set->empty() ? nullptr : config.task->workloads(*set))
      if (const auto why = beyond_memory(*config.task, named->workloads, config.target))
        throw InputError(place_of(from, {key}) + ": " + *why);
}

}  // namespace cultivar
