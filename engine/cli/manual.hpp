// SPDX-License-Identifier: Apache-2.0
// Manual pages, from what the commands themselves define. In roff, section 1.
#pragma once

#include <string>
#include <vector>

#include "engine/cli/completion.hpp"

namespace cultivar {

std::string manual_of_program(const std::vector<DefinedCommand>&);  // with all commands and their options
std::string manual_of(const DefinedCommand&);

}  // namespace cultivar
