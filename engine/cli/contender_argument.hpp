// How a contender is named on the command line: as a variant is (see variant_argument.hpp), or a library by
// name or by path (evaluators/contenders).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "engine/cli/variant_argument.hpp"
#include "evaluators/variant/manifest.hpp"

namespace cultivar {

struct NamedContender {
  std::string label, origin;
  std::optional<NamedSource> source;
  std::filesystem::path library;  // when there is no source
};

// Sources first: a file, a name below one of the task's `folders`, RUN:ID. Throws InputError, which for an
// unknown name lists what there is, and why what is known is absent.
NamedContender find_contender(const House&, const Task&, TargetKind, const std::string& argument,
                              const std::vector<std::string>& folders);

// A variant as find_source takes it, or a contender's library.
NamedContender find_side(const House&, const Task&, TargetKind, const std::string& argument);

// The names of the libraries that are there for a task on a target, or that do not say what they are for.
std::vector<std::string> contender_libraries(const House&, const Task&, TargetKind);

}  // namespace cultivar
