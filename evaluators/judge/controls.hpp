// SPDX-License-Identifier: Apache-2.0
// Negative controls: wrong outputs that the comparison must reject. A task that accepts one of them cannot
// detect errors and is itself rejected when a worker loads it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "evaluators/check/oracle.hpp"
#include "evaluators/variant/manifest.hpp"

namespace cultivar {

// Built-in controls, applied to each output tensor separately while the others are correct: zeros; the mean;
// a copy of an input of the same shape (unless a stress case refuses it); the output of other inputs; the
// correct output rounded to fp8 (e4m3). In addition the task's own `control_*`, where their `when` holds; all
// of them must be listed in task.yaml. The oracle itself, rounded to the outputs' types, must pass. An Error
// names the control, the shape and what to change. `step` is told which function of the reference is about to
// run, and on which shape.
Expected<void> check_controls(const Task&, const TaskReference&, Target, int threads,
                              const std::function<void(const std::string&)>& step = {});

// The task's own controls that no check shape tells from the right result, in one of the target's dtypes.
std::vector<std::string> undetected_controls(const Task&, const TaskReference&, Target, int threads,
                                             const std::function<void(const std::string&)>& step = {});

double round_to_fp8(double value);  // e4m3: 3 mantissa bits, maximum 448, smallest step 2^-9

}  // namespace cultivar
