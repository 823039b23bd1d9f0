// SPDX-License-Identifier: Apache-2.0
// A reference in C++: reference.cpp, which includes cultivar_reference.hpp. The host compiler builds it in a
// sandbox. A task may come from anybody, so its functions are called in processes of their own
// (reference_process.hpp). Those of the tasks that come with Cultivar, told by their contents, are called in
// this process, which is faster.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <string_view>

#include "evaluators/references/reference.hpp"

namespace cultivar {

// Builds the task's reference unless it is in `cache`. An Error contains the compiler's messages.
Expected<TaskReference> open_cpp_reference(const Task&, const std::filesystem::path& cache,
                                           double deadline_s);

// The text of evaluators/references/cultivar_reference.hpp, so that an installed program can compile oracles
// without the source tree. The build generates the definition.
extern const std::string_view kReferenceHeader;
// SHA-256 of each reference.cpp that comes with Cultivar.
extern const std::set<std::string> kOwnReferences;

}  // namespace cultivar
