// SPDX-License-Identifier: Apache-2.0
// Compares the outputs of two runs on the same inputs. Their bits must be equal, except in outputs for which
// the task permits a difference (`run_to_run`), as of sums by atomics: a share of the permitted error.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "evaluators/check/oracle.hpp"
#include "evaluators/references/rows.hpp"
#include "evaluators/task/task.hpp"

namespace cultivar {

// What differs by more than the task permits, one line for each output; empty: nothing. `legal` gives R by
// output, and is called only if it is needed.
std::string run_to_run_differences(const Task&, const RowLayout&,
                                   std::span<const std::vector<std::byte>> first,
                                   std::span<const std::vector<std::byte>> second,
                                   const std::function<std::vector<LegalError>()>& legal);

}  // namespace cultivar
