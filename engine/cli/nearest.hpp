// "Did you mean": the known name that is closest to what was typed.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cultivar {

// nullopt when nothing is close: more than a third of the letters differ and it is no prefix either.
std::optional<std::string> nearest(std::string_view typed, const std::vector<std::string>& known);
// " (did you mean X?)", or " (known: A, B, C)" when nothing is close.
std::string suggestion(std::string_view typed, const std::vector<std::string>& known);

}  // namespace cultivar
