// Lines of a text, each with its end.
#pragma once

#include <string_view>
#include <vector>

namespace cultivar {

inline std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::size_t size = end == std::string_view::npos ? text.size() : end + 1;
    lines.push_back(text.substr(0, size));
    text.remove_prefix(size);
  }
  return lines;
}

inline std::string_view trimmed_end(std::string_view line) {
  const std::size_t last = line.find_last_not_of(" \t\r\n");
  return last == std::string_view::npos ? std::string_view() : line.substr(0, last + 1);
}

inline std::string_view indentation_of(std::string_view line) {
  const std::string_view text = trimmed_end(line);
  return text.substr(0, std::min(text.find_first_not_of(" \t"), text.size()));
}

}  // namespace cultivar
