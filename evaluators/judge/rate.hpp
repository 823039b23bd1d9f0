// SPDX-License-Identifier: Apache-2.0
// What a task reports of a time: operations per second, bytes per second or runs per second.
#pragma once

#include <string>

#include "evaluators/target/traits.hpp"
#include "evaluators/task/task.hpp"

namespace cultivar {

std::string unit_of(const Task&, Target);
double rate_of(const Task&, const Workload&, Target, double seconds);

}  // namespace cultivar
