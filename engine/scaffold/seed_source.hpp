// SPDX-License-Identifier: Apache-2.0
// The source of a new seed of any task: the language's frame (LanguageTraits::frame), with the task's values.
#pragma once

#include <string>

#include "evaluators/target/language.hpp"
#include "evaluators/task/task.hpp"

namespace cultivar {

// A frame may name: name, task, target, summary; shapes: a comment with a line for each tensor; arguments:
// the names of tensors, dimensions and parameters; parameters, f32_parameters: the same as a C function
// declares them, where elements of the workload's dtype are DTYPE or float; rows: how many there are, in the
// first dimension of rows; elements: how many elements of an output one of those rows has.
std::string seed_source(const Task&, Language, Target, const std::string& name);

}  // namespace cultivar
