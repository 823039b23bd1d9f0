// SPDX-License-Identifier: Apache-2.0
#include "engine/config/workload_choice.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "evaluators/yaml/nearest_name.hpp"

namespace cultivar {

namespace {

// As names of sets go: "cpu_long" is for the target cpu.
bool is_of_another(const WorkloadSet& set, Target target) {
  return std::ranges::any_of(targets(),
                             [&](Target t) { return t != target && set.name.starts_with(name_of(t)); });
}

}  // namespace

const WorkloadSet& choose_workloads(const Task& task, const std::string& set, Target target) {
  if (!set.empty()) {
    if (const WorkloadSet* found = task.workloads(set)) return *found;
    std::vector<std::string> known;
    for (const WorkloadSet& each : task.workload_sets) known.push_back(each.name);
    throw InputError(
        fmt::format("task {} has no workload set '{}'{}", task.name, set, did_you_mean(set, known)));
  }
  for (const std::string& name : target->usual_workloads)
    if (const WorkloadSet* found = task.workloads(name)) return *found;
  if (task.workload_sets.empty()) throw InputError(fmt::format("task {} has no workload set", task.name));
  for (const WorkloadSet& each : task.workload_sets)
    if (each.name != "holdout" && !is_of_another(each, target)) return each;
  return task.workload_sets.front();
}

std::vector<Workload> claimed(const Variant& variant, const Task& task,
                              const std::vector<Workload>& workloads) {
  std::vector<Workload> result;
  for (const Workload& workload : workloads)
    if (claims(variant, task, workload)) result.push_back(workload);
  return result;
}

}  // namespace cultivar
