// SPDX-License-Identifier: Apache-2.0
// The source of a new seed of any task: the manifest, and a kernel with the right parameters that its author
// completes.
#pragma once

#include <string>

#include "evaluators/target/traits.hpp"
#include "evaluators/task/task.hpp"

namespace cultivar {

std::string seed_source(const Task&, Target, const std::string& name);

}  // namespace cultivar
