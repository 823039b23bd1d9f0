// SPDX-License-Identifier: Apache-2.0
// What C++ and the languages made of it share: comments, types, numbers, keywords, and the parts of a new
// seed.
#pragma once

#include <string>
#include <vector>

#include "evaluators/target/language.hpp"
#include "evaluators/task/task.hpp"

namespace cultivar {

// A row with comments, the types of the standard's names (floating types of 16 and 8 bits as their bits),
// numbers and keywords.
LanguageTraits c_family();

// A kernel's arguments and parameters in the order tensors, dimensions, parameters.
struct SeedFrame {
  std::vector<std::string> arguments, parameters;
  std::string rows;  // how many rows the task has
};
// `elements`: the type of a tensor's elements where it has the workload's dtype.
SeedFrame seed_frame(const Task&, const LanguageTraits&, std::string_view elements);
// The whole source: `keys` and `launch_keys` are lines of the manifest and of its launch; `includes` and
// `qualifiers` stand before the kernel, and `loop` opens the block in which its author computes.
std::string seed_source(const Task&, const LanguageTraits&, Target, const std::string& name, const SeedFrame&,
                        std::string_view keys, std::string_view launch_keys, std::string_view includes,
                        std::string_view qualifiers, std::string_view loop);

}  // namespace cultivar
