#include "engine/workload_choice.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "evaluators/yaml/nearest_name.hpp"

namespace cultivar {

const WorkloadSet& choose_workloads(const Task& task, const std::string& set, TargetKind target) {
  const std::vector<std::string> usual = target == TargetKind::cpu
                                             ? std::vector<std::string>{"cpu_quick", "quick"}
                                             : std::vector<std::string>{"quick", "gpu"};
  if (!set.empty()) {
    if (const WorkloadSet* found = task.workloads(set)) return *found;
    std::vector<std::string> known;
    for (const WorkloadSet& each : task.workload_sets) known.push_back(each.name);
    throw InputError(
        fmt::format("task {} has no workload set '{}'{}", task.name, set, did_you_mean(set, known)));
  }
  for (const std::string& name : usual)
    if (const WorkloadSet* found = task.workloads(name)) return *found;
  if (task.workload_sets.empty()) throw InputError(fmt::format("task {} has no workload set", task.name));
  if (target == TargetKind::cuda)
    for (const WorkloadSet& each : task.workload_sets)
      if (!each.name.starts_with("cpu") && each.name != "holdout") return each;
  return task.workload_sets.front();
}

std::vector<Workload> claimed(const Variant& variant, const Task& task,
                              const std::vector<Workload>& workloads) {
  std::vector<Workload> result;
  for (const Workload& workload : workloads)
    if (claims(variant, task, workload)) result.push_back(workload);
  return result;
}

Workload most_expensive(const Task& task, const std::vector<Workload>& workloads) {
  return *std::max_element(workloads.begin(), workloads.end(), [&](const Workload& a, const Workload& b) {
    return task.flops(a) < task.flops(b);
  });
}

}  // namespace cultivar
