// SPDX-License-Identifier: Apache-2.0
// The files of a new task: a small operation on each row, complete enough to be searched at once, which its
// author then replaces by the real one.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "evaluators/dtype/dtype.hpp"

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

}  // namespace cultivar
