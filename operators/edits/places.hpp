// Where lines stand in a source, in time that grows with both and not with their product: sources and blocks
// are a model's, and the search waits for them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace cultivar {

// How much deeper the source is indented than the block: text to put before lines, or to take away from them.
struct Shift {
  std::string add;
  std::size_t remove = 0;
  bool operator==(const Shift&) const = default;
};

struct Place {
  std::size_t first = 0, count = 0;  // lines of the source
  Shift shift;
};

inline constexpr std::size_t kShownPlaces = 5;

class SourceLines {
 public:
  explicit SourceLines(std::string_view source);
  const std::vector<std::string_view>& lines() const { return lines_; }

  // The places of `wanted`, one line of code at least: letter for letter (spaces at line ends do not count),
  // or else all of it shifted alike. At most kShownPlaces + 1: with so many nobody can say which is meant.
  // nullopt: so many places differ in nothing but tabs and spaces that it was given up.
  std::optional<std::vector<Place>> places_of(const std::vector<std::string_view>& wanted) const;

  // In words: the stretch that shares most lines with `wanted`, in place, and the first line that differs.
  std::string nearest_to(const std::vector<std::string_view>& wanted) const;

 private:
  using Symbols = std::vector<std::uint64_t>;
  std::uint64_t id_of(std::string_view text) const;  // of a line of the source; 0: none is like it

  std::vector<std::string_view> lines_;
  std::unordered_map<std::string_view, std::uint64_t> ids_;
  Symbols whole_;  // a line without what it ends in
  Symbols
      relative_;  // a line without its indentation, and how much deeper it is than the line of code before
  Symbols bare_;  // a line without its indentation
};

}  // namespace cultivar
