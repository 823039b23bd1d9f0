// SPDX-License-Identifier: Apache-2.0
// A workload from the values that are given.
#pragma once

#include <vector>

#include "evaluators/system/error.hpp"
#include "evaluators/task/task.hpp"
#include "evaluators/yaml/strict_yaml.hpp"

namespace cultivar {

// What `given` omits gets its default. Checks each value, `where` and the cost; the error says what is wrong,
// for the file that gave it. `task` must have its dimensions, parameters, tensors, let, where and cost.
Expected<Workload> make_workload(const Task& task, Bindings given, Dtype dtype, bool dtype_in_name);

// The values of a workload that are not defaults: make_workload makes it of them again.
Bindings given_values(const Task& task, const Workload& workload);

// Each item of the list gives dimensions and parameters; the others get their defaults. Checks `where` and
// the cost. `task` must already have its dimensions, parameters, tensors, let, where and cost.
std::vector<Workload> read_workloads(const Task& task, const YamlNode& list, Dtype dtype, bool dtype_in_name);

}  // namespace cultivar
