// SPDX-License-Identifier: Apache-2.0
// A command as a shell takes it.
#pragma once

#include <string>
#include <vector>

namespace cultivar {

// Its words, each quoted where a shell needs it: `sh -c 'exit 1'`.
std::string shell_words(const std::vector<std::string>& command);

}  // namespace cultivar
