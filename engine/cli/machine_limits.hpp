// SPDX-License-Identifier: Apache-2.0
// The limits of the shell and of the machine, as far as they concern a command.
#pragma once

#include <string>
#include <vector>

#include "engine/cli/config_checks.hpp"
#include "evaluators/target/traits.hpp"
#include "evaluators/task/task.hpp"

namespace cultivar {

// Throws InputError, with the limit and its value, if nothing can work.
void require_limits();
// The same, and the others as sentences for warnings.
std::vector<std::string> limit_warnings();

// Throws InputError if a workload, timed or of the holdout, can never be evaluated with the memory of this
// machine. A launcher's machines are others.
void check_memory(const Config&, const ConfigPlace& from);
void check_memory(const Task&, const std::vector<Workload>&, Target);

}  // namespace cultivar
