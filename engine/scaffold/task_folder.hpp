// SPDX-License-Identifier: Apache-2.0
// The files of a new task: a small operation on each row, complete enough to be searched at once, which its
// author then replaces by the real one.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "evaluators/dtype/dtype.hpp"
#include "evaluators/target/language.hpp"
#include "evaluators/task/task.hpp"

namespace cultivar {

// The name of the folder beside tasks whose headers their seeds include; no task's.
inline constexpr const char* kFolderOfHeaders = "headers";

struct TaskOutline {
  std::string name, summary;
  std::string rows = "R", columns = "C", input = "x", output = "y";  // names of dimensions and tensors
  std::vector<Dtype> dtypes = {Dtype::bf16, Dtype::f16, Dtype::f32};
};

// What is wrong with the outline, with the remedy; empty: nothing.
std::string trouble_of(const TaskOutline&);
// The texts by their paths in the folder. The outline must have no trouble.
std::map<std::string, std::string> task_files(const TaskOutline&);

// The source of a new seed of any task: the language's frame (LanguageTraits::frame), with the task's values.
// A frame may name: name, task, target, summary; shapes: a comment with a line for each tensor; arguments:
// the names of tensors, dimensions and parameters; parameters, f32_parameters: the same as a C function
// declares them, where elements of the workload's dtype are DTYPE or float; rows: how many there are, in the
// first dimension of rows; elements: how many elements of an output one of those rows has.
std::string seed_source(const Task&, Language, Target, const std::string& name);

}  // namespace cultivar
