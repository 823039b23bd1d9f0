// Whether a text has another in it, as tests ask of what programs and messages say.
#pragma once

#include <string_view>

namespace cultivar::testing {

inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace cultivar::testing
