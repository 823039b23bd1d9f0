// SPDX-License-Identifier: Apache-2.0
// "did you mean ...?": the known name nearest to a misspelled one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cultivar {

// Empty if no known name is near: the edit distance exceeds a third of the longer name (at least 1). A
// difference in case counts as half an edit.
std::string nearest_name(std::string_view name, const std::vector<std::string>& known);
// " (did you mean 'grid'? known: args, block, grid)". Omits the list if a name is near and there are more
// than `most` names.
std::string did_you_mean(std::string_view name, const std::vector<std::string>& known, std::size_t most = 24);

}  // namespace cultivar
