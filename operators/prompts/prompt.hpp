// SPDX-License-Identifier: Apache-2.0
// Assembles a prompt, and the first question of a dialogue, from pieces: each piece belongs to a slot of a
// template and has a rank; pieces that do not fit a token limit are dropped, least useful first. Texts of
// kernels, compilers and models are data: they are inserted unchanged and never parsed as a template.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "evaluators/target/language.hpp"
#include "operators/knowledge/knowledge.hpp"
#include "operators/llm/chat.hpp"
#include "operators/prompts/prompt_context.hpp"

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

// The material for prompts: templates, built in or a user's, notes, and limits.

// Begins the line of an answer that declines the question.
inline constexpr const char* kDecline = "DECLINE:";

// The limits of one dialogue with tools.
struct ToolBudget {
  int steps = 24;                 // answers of the model
  std::int64_t tokens = 400'000;  // of all answers, including prompts, excluding tokens read from a cache
  double device_seconds =
      300.0;  // for check, benchmark and profile; a call that starts within the limit may finish

  friend bool operator==(const ToolBudget&, const ToolBudget&) = default;
};

struct PromptOptions {
  std::int64_t prompt_tokens = 12'000;  // of a first question, system and user text together; estimated
  std::int64_t output_tokens = 16'000;  // limit for an answer, including reasoning
  int resamples = 2;                    // how many unusable answers are sent back in one dialogue
  // What a question tells of the search besides the best and the lineage of its kernel: the ideas of the
  // whole search (and what gave an earlier proposal that is nearly the same), the elite of another family.
  bool ideas = true, families = true;
  ToolBudget tools = {};
  bool any_header_order = true;  // an answer's header sections need not have the manifest's order

  friend bool operator==(const PromptOptions&, const PromptOptions&) = default;
};

// A value. The texts are fixed when a run starts, so that a later version of Cultivar asks the same
// questions.
class PromptKit {
 public:
  // `texts`: by file name ("system.md"), replacing the built-in ones. Throws InputError for an unknown name,
  // and for a template that does not parse or names a slot that the built-in one lacks.
  explicit PromptKit(PromptOptions options = {}, const std::map<std::string, std::string>& texts = {},
                     std::vector<Note> notes = known_notes());

  // The text in use for every template and piece, built in or replaced.
  const std::map<std::string, std::string>& texts() const { return texts_; }
  const PromptTemplate& named(const std::string& name) const;  // "system"
  // How a kernel in this language is written; format_brief if the language has no text of its own.
  const std::string& format_of(Language) const;
  // A piece: a text whose built-in version has no slots, inserted unchanged.
  const std::string& piece(const std::string& name) const;
  // The next message of a dialogue: "refused" (with the reason).
  std::string follow_up(const std::string& name, const std::string& reason) const;

  // Whether the prompts in use let a model decline a question.
  bool offers_decline() const;

  const PromptOptions& options() const { return options_; }
  int resamples() const { return options_.resamples; }
  const std::vector<Note>& notes() const { return notes_; }

 private:
  PromptOptions options_;
  std::map<std::string, std::string> texts_;         // by file name
  std::map<std::string, PromptTemplate> templates_;  // by name
  std::vector<Note> notes_;
};

// Creates the first question of a dialogue from its pieces.

// The system text is one of three texts that are the same for all questions of a run, so that providers can
// cache it: with the complete format; with the brief one, if the manifest of a cpu kernel is an example of
// it; a short one if the rest is long. `left_out`, if given, receives what did not fit the token limit.
ChatRequest opening(const PromptTemplate&, std::vector<Piece>, const PromptContext&, const PromptKit&,
                    std::vector<std::string>* left_out = nullptr);

// Empty if the question can be asked; otherwise the reason and the remedy. The required pieces, which are the
// kernels and the evidence, may use at most kMostOverBudget times the tokens that the limit leaves for them.
inline constexpr std::int64_t kMostOverBudget = 2;
std::string beyond_budget(const ChatRequest& question, const PromptKit&);

}  // namespace cultivar
