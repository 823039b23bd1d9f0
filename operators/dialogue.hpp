// What follows from a brief and a model's answers: another question, a proposal, or nothing. Pure functions,
// so that a resumed search and a replay reach the same end from the recorded answers. Model text is data: it
// becomes a source, a line of a note, or part of the next message, and nothing else.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "operators/agent/tool_outcome.hpp"
#include "operators/llm/chat.hpp"
#include "operators/operator.hpp"
#include "operators/prompts/prompt_kit.hpp"

namespace cultivar {

struct Turn {
  ChatRequest request;
  ChatAnswer answer;
  std::vector<ToolOutcome> results = {};  // of the answer's tool calls, as far as they have been run
};

// What the proposal is an edit of.
struct EditedParent {
  std::string source;
  Configuration configuration;
};

struct GivenUp {
  std::string reason;  // one line
};
// A call of the last answer that is to be run; what it gives belongs to that turn's results.
struct ToolDue {
  std::size_t index = 0;  // among the answer's calls
  ToolCall call;
};
using Move = std::variant<Proposal, ChatRequest, GivenUp, ToolDue>;

// After the last of `turns`, of which there is at least one. The proposal's descent lacks model and cost. A
// source whose manifest is wrong goes back to the model like an edit that cannot be applied; at the last try
// it is proposed all the same, to be refused by lint and recorded with its reason.
Move next_move(const Brief&, const EditedParent&, const Task&, const PromptKit&,
               const std::vector<Turn>& turns);

// What a search can make use of, and its record can hold. Empty: it can; otherwise words for the model.
std::string too_many(const Manifest&);

// One line for the record and for terminals: no control characters, a bounded length.
std::string one_line_of(std::string_view text, std::size_t most);

// The values of a new source's tunables: the parent's where the tunable is as it was, the default otherwise.
Configuration inherited(const Manifest& child, const Manifest& parent, const Configuration&);

// Does the critique quote evidence, and does all that it quotes stand in the request between <evidence> and
// </evidence>? Empty: yes; otherwise words for the model.
std::string unfounded(const std::string& critique, const std::string& request);

}  // namespace cultivar
