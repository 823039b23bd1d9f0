// What prompts are made with: templates, ours or a user's, notes, and how much may be said.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "operators/knowledge/knowledge.hpp"
#include "operators/prompts/prompt.hpp"

namespace cultivar {

// What one variation of the operator `agent` may use.
struct AgentBudget {
  int steps = 24;                 // answers of the model
  std::int64_t tokens = 400'000;  // of all of them, prompts included, without what came from a cache
  double device_seconds = 300.0;  // of check, benchmark and profile; of the calls that begin before

  friend bool operator==(const AgentBudget&, const AgentBudget&) = default;
};

struct PromptOptions {
  std::int64_t prompt_tokens = 12'000;  // of a first question, system and user together; estimated
  std::int64_t output_tokens = 16'000;  // asked for at most, reasoning included
  int resamples = 2;                    // how often an answer that cannot be used goes back in one dialogue
  AgentBudget agent = {};

  friend bool operator==(const PromptOptions&, const PromptOptions&) = default;
};

// A value. The texts are fixed when a run begins, so that a later program asks the same questions.
class PromptKit {
 public:
  // `texts`: by file name ("mutate.md"), in place of the built-in ones. Throws InputError for a name that is
  // not one of ours, and for a template that does not parse.
  explicit PromptKit(PromptOptions options = {}, const std::map<std::string, std::string>& texts = {},
                     std::vector<Note> notes = known_notes());

  // Of every template, what is in use: built-in or replaced.
  const std::map<std::string, std::string>& texts() const { return texts_; }
  const PromptTemplate& named(const std::string& name) const;  // "mutate"
  // What is not a template but a piece: format_cpu, format_cuda, format_brief, answer.
  const std::string& piece(const std::string& name) const;
  // The next message of a dialogue: "refused" (with why), "repair", "agent_refused", "agent_last".
  std::string follow_up(const std::string& name, const std::string& reason) const;

  const PromptOptions& options() const { return options_; }
  int resamples() const { return options_.resamples; }
  const std::vector<Note>& notes() const { return notes_; }

 private:
  PromptOptions options_;
  std::map<std::string, std::string> texts_;         // by file name
  std::map<std::string, PromptTemplate> templates_;  // by name
  std::vector<Note> notes_;
};

}  // namespace cultivar
