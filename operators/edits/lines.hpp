// SPDX-License-Identifier: Apache-2.0
// What of a line counts, and what is only its place.
#pragma once

#include <algorithm>
#include <string_view>

namespace cultivar {

inline std::string_view trimmed_end(std::string_view line) {
  const std::size_t last = line.find_last_not_of(" \t\r\n");
  return last == std::string_view::npos ? std::string_view() : line.substr(0, last + 1);
}

inline std::string_view indentation_of(std::string_view line) {
  const std::string_view text = trimmed_end(line);
  return text.substr(0, std::min(text.find_first_not_of(" \t"), text.size()));
}

}  // namespace cultivar
