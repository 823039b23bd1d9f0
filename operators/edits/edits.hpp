// What a model writes, as a change of a source: the whole file, or SEARCH/REPLACE blocks. Model text is data:
// nothing here touches a file, and nothing is applied at a guess.
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <variant>
#include <vector>

namespace cultivar {

// Words for the model that wrote it: what is wrong, where, and what to send instead.
struct Refusal {
  std::string words;
};

struct WholeSource {
  std::string text;
};
struct Block {
  std::string search, replace;  // whole lines, each with its end
  int line = 0;                 // of the answer, where the block begins; 1-based
};
using Blocks = std::vector<Block>;
using Edit = std::variant<WholeSource, Blocks>;

// Finds the edit in an answer. Blocks may stand in fences or not:
//
//   <<<<<<< SEARCH
//   lines of the source, letter for letter
//   =======
//   lines that take their place
//   >>>>>>> REPLACE
//
// A whole source is a fenced block of code with a manifest ("/*--- cultivar") in it; the last such block
// counts, so that a model may think aloud first. Refused: neither, both, a block that is not closed, more
// than `max_bytes`.
tl::expected<Edit, Refusal> find_edit(std::string_view answer, std::size_t max_bytes = std::size_t{1} << 20);

inline constexpr std::size_t kMostSourceBytes = std::size_t{1} << 20;
inline constexpr std::size_t kMostBlocks = 200;

// All blocks are searched in the source as it was. Each must be found once: letter for letter, or else with
// all of its lines indented by the same amount more or less, which its replacement then is too (spaces at
// line ends do not count). Refused: not found (says what comes nearest, and where it differs), found twice
// (says where), blocks that overlap, a block without SEARCH lines, no change at all,
// more than the bounds above.
tl::expected<std::string, Refusal> apply_blocks(std::string_view source, const Blocks&);

// Either kind. A whole source replaces everything; refused when it equals the old one.
tl::expected<std::string, Refusal> apply_edit(std::string_view source, const Edit&);

}  // namespace cultivar
