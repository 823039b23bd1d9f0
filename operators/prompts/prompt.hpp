// A prompt from pieces: each belongs to a slot of a template and has a rank; a budget in tokens decides which
// are left out, least useful first. Texts of kernels, compilers and models are data: they are put in as they
// are and never read as template.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cultivar {

struct Piece {
  std::string slot;  // {{slot}} of the template; pieces of one slot stand in the order given
  std::string text;
  int rank = 0;           // 0: always sent; the higher, the sooner left out
  std::string name = {};  // for people: "note wgmma", "failure #31"
};

struct Prompt {
  std::string text;
  std::int64_t tokens = 0;            // estimated
  std::vector<std::string> left_out;  // names of pieces, in the order they went
};

// About what tokenizers make of C++ and English, rather too many: one for each three bytes.
std::int64_t estimated_tokens(std::string_view text);

// A Mustache template: {{slot}}, sections {{#slot}}...{{/slot}} and {{^slot}}...{{/slot}}, comments {{! }}.
// A slot that has no piece is empty, and so is its section.
class PromptTemplate {
 public:
  // `origin` names it in errors. Throws InputError (origin, line, remedy) when it does not parse or names a
  // slot that is not one of `slots`.
  PromptTemplate(std::string text, std::string origin, const std::vector<std::string>& slots);

  // Of equal rank the last piece goes first. What must be sent is sent, even above the budget.
  Prompt render(std::vector<Piece> pieces, std::int64_t budget_tokens) const;

 private:
  std::string filled(const std::vector<Piece>& pieces) const;
  std::string text_;
};

}  // namespace cultivar
