// SPDX-License-Identifier: Apache-2.0
// Inputs of whole numbers, such as places in other tensors: which values the checks of a kernel give them. A
// launcher on the host looks at them in each call; on other devices a bundle says it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "evaluators/launchers/launcher_parts.hpp"

namespace cultivar {

// Of each input of whole numbers that is not derived, its name and its values: ("targets", "from 0 to V - 1,
// or ignore_index").
std::vector<std::pair<std::string, std::string>> values_of_whole_inputs(const Task&);

// Whether a value outside of them is a place outside of another tensor: the values end with a dimension.
bool is_index(const Task&, const TensorSpec&);

// Statements that throw std::invalid_argument for an element of an index that is outside of its values. The
// names of task_bindings() must be known.
Expected<std::string> index_checks(const LauncherInput&);

}  // namespace cultivar
