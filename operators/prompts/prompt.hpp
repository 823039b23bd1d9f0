// SPDX-License-Identifier: Apache-2.0
// Assembles a prompt from pieces: each piece belongs to a slot of a template and has a rank; pieces that do
// not fit a token limit are dropped, least useful first. Texts of kernels, compilers and models are data:
// they are inserted unchanged and never parsed as a template.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cultivar {

struct Piece {
  std::string slot;  // {{slot}} of the template; pieces of one slot keep their order
  std::string text;
  int rank = 0;           // 0: always sent; higher ranks are dropped earlier
  std::string name = {};  // for people: "note wgmma", "failure #31"
};

struct Prompt {
  std::string text;
  std::int64_t tokens = 0;            // estimated
  std::vector<std::string> left_out;  // names of dropped pieces, in the order in which they were dropped
};

// An estimate for C++ and English, rather too high: one token per three bytes.
std::int64_t estimated_tokens(std::string_view text);

// The names of a template's slots, each once.
std::vector<std::string> slots_of(const std::string& text);

// A Mustache template: {{slot}}, sections {{#slot}}...{{/slot}} and {{^slot}}...{{/slot}}, comments {{! }}.
// A slot without a piece is empty, and so is its section.
class PromptTemplate {
 public:
  // Errors name `origin`. Throws InputError (origin, line, remedy) if the template does not parse or names a
  // slot that is not in `slots`.
  PromptTemplate(std::string text, std::string origin, const std::vector<std::string>& slots);

  // Among pieces of equal rank the last one is dropped first. Pieces of rank 0 are sent even above the limit.
  Prompt render(std::vector<Piece> pieces, std::int64_t budget_tokens) const;

 private:
  std::string filled(const std::vector<Piece>& pieces) const;
  std::string text_;
};

}  // namespace cultivar
