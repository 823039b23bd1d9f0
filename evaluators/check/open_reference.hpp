// SPDX-License-Identifier: Apache-2.0
// Opens the reference of a task, in whichever language it is written.
#pragma once

#include <filesystem>
#include <string>

#include "evaluators/references/reference.hpp"

namespace cultivar {

// `cache`: a folder for what is compiled. `python`: the interpreter of references in Python, a path or a name
// in PATH. An Error says what is wrong with the reference, or what is missing here.
Expected<TaskReference> open_reference(const Task&, const std::filesystem::path& cache,
                                       const std::string& python = "python3", double deadline_s = 120.0);

}  // namespace cultivar
