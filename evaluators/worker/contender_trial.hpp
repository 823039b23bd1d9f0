// SPDX-License-Identifier: Apache-2.0
// Tests in a separate process, `cultivar-worker-TARGET contender LIBRARY TASK_FOLDER`, whether a contender's
// library can be loaded here and can load its vendor's libraries.
#pragma once

#include <filesystem>
#include <string>

#include "evaluators/system/error.hpp"
#include "evaluators/target/traits.hpp"

namespace cultivar {

// Returns the version that the library reports. The Error says what is missing, with the remedy if the
// library knows one.
Expected<std::string> try_contender(const std::filesystem::path& programs,
                                    const std::filesystem::path& library,
                                    const std::filesystem::path& task_folder, Target target);

// The child process's side: prints the version to stdout and returns 0, or the error to stderr and returns 1.
int contender_trial(const std::filesystem::path& library, const std::filesystem::path& task_folder,
                    Target target);

}  // namespace cultivar
