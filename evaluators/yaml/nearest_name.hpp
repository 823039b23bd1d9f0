// "did you mean ...?": the known name nearest to a misspelt one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cultivar {

// Empty when nothing known is near (an edit distance above a third of the longer name, at least 1). A
// difference in case counts as half an edit.
std::string nearest_name(std::string_view name, const std::vector<std::string>& known);
// " (did you mean 'grid'? known: args, block, grid)"; the list is left out when it is longer than `most`
// names and something is near.
std::string did_you_mean(std::string_view name, const std::vector<std::string>& known, std::size_t most = 24);

}  // namespace cultivar
