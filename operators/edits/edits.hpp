// SPDX-License-Identifier: Apache-2.0
// A model's answer as a change of a source: the complete file, or SEARCH/REPLACE blocks. Text from a model is
// data: no file is accessed, and nothing is applied by guessing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <unordered_map>
#include <variant>
#include <vector>

namespace cultivar {

// Finds lines in a source in time linear in both, not in their product, because both may come from a model
// and the search waits for the result.

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

// A message for the model: what is wrong, where, and what to send instead.
struct EditRefusal {
  std::string words;
};

struct WholeSource {
  std::string text;
};
struct Block {
  std::string search, replace;  // complete lines, including line ends
  int line = 0;                 // line of the answer where the block starts; 1-based
};
using Blocks = std::vector<Block>;
using Edit = std::variant<WholeSource, Blocks>;

// Finds the edit in an answer. Blocks may be inside or outside of fences:
//
//   <<<<<<< SEARCH
//   lines of the source, copied exactly
//   =======
//   replacement lines
//   >>>>>>> REPLACE
//
// A complete source is a fenced block of code with a manifest (such as "/*--- cultivar"); the last such block
// counts, so that a model may write drafts first. Refused: neither, both, a block that is not closed, more
// than `max_bytes`.
tl::expected<Edit, EditRefusal> find_edit(std::string_view answer,
                                          std::size_t max_bytes = std::size_t{1} << 20);

inline constexpr std::size_t kMostSourceBytes = std::size_t{1} << 20;
inline constexpr std::size_t kMostBlocks = 200;

// All blocks are searched in the original source. Each must match exactly once: literally, or with all lines
// indented by the same amount more or less, which is then also applied to its replacement (spaces at line
// ends are ignored). Refused: not found (the message shows the nearest match and where it differs), found
// more than once (the message shows where), overlapping blocks, a block without SEARCH lines, no change at
// all, more than the bounds above.
tl::expected<std::string, EditRefusal> apply_blocks(std::string_view source, const Blocks&);

// Applies either kind. A complete source replaces everything; refused if it equals the old one.
tl::expected<std::string, EditRefusal> apply_edit(std::string_view source, const Edit&);

}  // namespace cultivar
