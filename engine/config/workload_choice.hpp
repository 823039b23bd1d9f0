// SPDX-License-Identifier: Apache-2.0
// Selects workloads of a task.
#pragma once

#include <string>
#include <vector>

#include "evaluators/variant/variant.hpp"

namespace cultivar {

// The set that the user names, or the default set of a target. Throws InputError.
const WorkloadSet& choose_workloads(const Task&, const std::string& set, Target);
std::vector<Workload> claimed(const Variant&, const Task&, const std::vector<Workload>&);

}  // namespace cultivar
