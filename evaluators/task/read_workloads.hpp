// SPDX-License-Identifier: Apache-2.0
// Reads the workloads of a task.yaml. Private to this folder.
#pragma once

#include <vector>

#include "evaluators/task/task.hpp"
#include "evaluators/yaml/strict_yaml.hpp"

namespace cultivar {

// Each item of the list gives dimensions and parameters; the others get their defaults. Checks `where` and
// the cost. `task` must already have its dimensions, parameters, tensors, let, where and cost.
std::vector<Workload> read_workloads(const Task& task, const YamlNode& list, Dtype dtype, bool dtype_in_name);

}  // namespace cultivar
