// SPDX-License-Identifier: Apache-2.0
// Finds lines in a source in time linear in both, not in their product, because both may come from a model
// and the search waits for the result.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace cultivar {

// The source's indentation relative to the block's: text to add to lines, or to remove from them.
struct Shift {
  std::string add;
  std::size_t remove = 0;
  bool operator==(const Shift&) const = default;
};

struct Place {
  std::size_t first = 0, count = 0;  // line range in the source
  Shift shift;
};

inline constexpr std::size_t kShownPlaces = 5;

class SourceLines {
 public:
  explicit SourceLines(std::string_view source);
  const std::vector<std::string_view>& lines() const { return lines_; }

  // The positions of `wanted`, which has at least one line of code: exact matches (ignoring spaces at line
  // ends), or else matches with a common indentation shift. At most kShownPlaces + 1, since more are only
  // ambiguous. nullopt: gave up because too many places differ only in tabs and spaces.
  std::optional<std::vector<Place>> places_of(const std::vector<std::string_view>& wanted) const;

  // A message that names the range with the most lines in common with `wanted`, and the first line that
  // differs.
  std::string nearest_to(const std::vector<std::string_view>& wanted) const;

 private:
  using Symbols = std::vector<std::uint64_t>;
  std::uint64_t id_of(std::string_view text) const;  // id of a line of the source; 0: no line is equal

  std::vector<std::string_view> lines_;
  std::unordered_map<std::string_view, std::uint64_t> ids_;
  Symbols whole_;     // lines without line ends
  Symbols relative_;  // lines without indentation, with the indentation relative to the previous code line
  Symbols bare_;      // lines without indentation
};

// What of a line counts, and what is only its place.
inline std::string_view trimmed_end(std::string_view line) {
  const std::size_t last = line.find_last_not_of(" \t\r\n");
  return last == std::string_view::npos ? std::string_view() : line.substr(0, last + 1);
}

inline std::string_view indentation_of(std::string_view line) {
  const std::string_view text = trimmed_end(line);
  return text.substr(0, std::min(text.find_first_not_of(" \t"), text.size()));
}

}  // namespace cultivar
