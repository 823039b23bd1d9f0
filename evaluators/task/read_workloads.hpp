// Workloads of a task.yaml. Private to this folder.
#pragma once

#include <vector>

#include "evaluators/task/task.hpp"
#include "evaluators/yaml/strict_yaml.hpp"

namespace cultivar {

// Each item of the list gives dimensions and parameters; the rest get their defaults, and `where` and the
// cost are checked. `task` must have its dimensions, parameters, tensors, let, where and cost.
std::vector<Workload> read_workloads(const Task& task, const YamlNode& list, Dtype dtype, bool dtype_in_name);

}  // namespace cultivar
