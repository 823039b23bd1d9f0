// SPDX-License-Identifier: Apache-2.0
// A model's answer as a change of a source: the complete file, or SEARCH/REPLACE blocks. Text from a model is
// data: no file is accessed, and nothing is applied by guessing.
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <variant>
#include <vector>

namespace cultivar {

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
