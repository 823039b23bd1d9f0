// SPDX-License-Identifier: Apache-2.0
#include "evaluators/system/lines.hpp"

namespace cultivar {

std::vector<std::string_view> lines_with_ends(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    lines.push_back(text.substr(0, end == text.npos ? end : end + 1));
    text.remove_prefix(lines.back().size());
  }
  return lines;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines = lines_with_ends(text);
  for (std::string_view& line : lines)
    if (line.ends_with('\n')) line.remove_suffix(1);
  return lines;
}

}  // namespace cultivar
