// Whether a contender's library can be loaded here, and its vendor's libraries by it: tried in a process of
// its own, `cultivar-worker-TARGET contender LIBRARY TASK_FOLDER`.
#pragma once

#include <filesystem>
#include <string>

#include "evaluators/error.hpp"
#include "evaluators/targets/target.hpp"

namespace cultivar {

// Its version, as it tells it. The Error says what is missing, and the remedy where the library knows one.
Expected<std::string> try_contender(const std::filesystem::path& programs,
                                    const std::filesystem::path& library,
                                    const std::filesystem::path& task_folder, TargetKind target);

// The process's side: the version on stdout and 0, or the trouble on stderr and 1.
int contender_trial(const std::filesystem::path& library, const std::filesystem::path& task_folder,
                    TargetKind target);

}  // namespace cultivar
