// Which of a task's workloads something is done to.
#pragma once

#include <string>
#include <vector>

#include "evaluators/variant/variant.hpp"

namespace cultivar {

// The set that the user names, or the one that a target is usually tried on. Throws InputError.
const WorkloadSet& choose_workloads(const Task&, const std::string& set, TargetKind);
std::vector<Workload> claimed(const Variant&, const Task&, const std::vector<Workload>&);
// The one with most arithmetic; not of none.
Workload most_expensive(const Task&, const std::vector<Workload>&);

}  // namespace cultivar
