// How a contender is named on the command line: like a variant (see variant_argument.hpp), or a library by
// name or path (evaluators/contenders).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "engine/cli/variant_argument.hpp"
#include "evaluators/contenders/contender_file.hpp"
#include "evaluators/variant/manifest.hpp"

namespace cultivar {

struct NamedContender {
  std::string label, origin;
  std::optional<NamedSource> source;
  ContenderFile library;  // set when there is no source
};

// Looks for sources first: a file, a name under one of the task's `folders`, RUN:ID. Throws InputError; for
// an unknown name, the message lists the available contenders and says why known ones are unavailable.
NamedContender find_contender(const InstallationPaths&, const Task&, Target, const std::string& argument,
                              const std::vector<std::string>& folders);

// A variant as find_source accepts it, or a contender library.
NamedContender find_side(const InstallationPaths&, const Task&, Target, const std::string& argument);

// The names of the installed libraries for this task and target, and of those that do not declare a task.
std::vector<std::string> contender_libraries(const InstallationPaths&, const Task&, Target);

}  // namespace cultivar
