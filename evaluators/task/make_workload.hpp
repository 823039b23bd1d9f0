// SPDX-License-Identifier: Apache-2.0
// A workload from the values that are given.
#pragma once

#include "evaluators/system/error.hpp"
#include "evaluators/task/task.hpp"

namespace cultivar {

// What `given` omits gets its default. Checks each value, `where` and the cost; the error says what is wrong,
// for the file that gave it. `task` must have its dimensions, parameters, tensors, let, where and cost.
Expected<Workload> make_workload(const Task& task, Bindings given, Dtype dtype, bool dtype_in_name);

// The values of a workload that are not defaults: make_workload makes it of them again.
Bindings given_values(const Task& task, const Workload& workload);

}  // namespace cultivar
