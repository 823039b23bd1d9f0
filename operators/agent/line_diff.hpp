// What differs between two sources, for people and models.
#pragma once

#include <string>
#include <string_view>

namespace cultivar {

// Unified, with three lines of context and without a head; empty when nothing differs. Texts of so many lines
// that the shortest way between them would cost too much come out as one large change.
std::string line_diff(std::string_view before, std::string_view after);

}  // namespace cultivar
