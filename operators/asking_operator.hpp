// SPDX-License-Identifier: Apache-2.0
// An operator that asks a language model: it decides which question to ask, which pieces the prompt has, and
// what follows from each answer. Text from a model is data: it only becomes a source, a line of a note, or
// part of the next message.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "operators/agent/tool_outcome.hpp"
#include "operators/llm/chat.hpp"
#include "operators/operator.hpp"
#include "operators/prompts/prompt.hpp"
#include "operators/prompts/prompt_writer.hpp"
#include "population/archive.hpp"

namespace cultivar {

struct Turn {
  ChatRequest request;
  ChatAnswer answer;
  std::vector<ToolOutcome> results = {};  // of the answer's tool calls that have been run so far

  // What an earlier idea gave that the answer's proposal repeats; nullptr: none was found.
  const ToolOutcome* similar_idea() const {
    const auto found = std::ranges::find(results, kSimilarIdea, &ToolOutcome::tool);
    return found == results.end() ? nullptr : &*found;
  }
};

// The source and values that the proposal edits.
struct EditedParent {
  std::string source;
  Configuration configuration;
  VariantPtr variant = {};  // of both, parsed; nullptr: not parsed yet
};

// A question and its answers so far, at least one. The references are valid during the call.
struct Conversation {
  const Brief& brief;
  const EditedParent& parent;
  const Task& task;
  const PromptKit& kit;
  const std::vector<Turn>& turns;
};

// fruitless: no usable answer came. declined: the model sees no change worth a measurement. withdrawn: the
// search has moved on before the first answer.
enum class NoResult { fruitless, declined, withdrawn };
std::string_view name_of(NoResult);

struct GivenUp {
  std::string reason;  // one line
  NoResult why = NoResult::fruitless;
  bool nothing_came =
      false;  // the answers had no text: another question would most likely be paid for nothing
};
// The next tool call of the last answer to run; its result is added to that turn's results.
struct ToolDue {
  std::size_t index = 0;  // index among the answer's calls
  ToolCall call;
};
// What other operators should try on the brief's first parent. The question itself makes no individual.
struct Directions {
  std::vector<std::string> words;  // one line each

  friend bool operator==(const Directions&, const Directions&) = default;
};
using Move = std::variant<Proposal, ChatRequest, GivenUp, ToolDue, Directions>;

class AskingOperator : public Operator {
 public:
  AskingOperator* asking() final { return this; }
  // It does not propose directly: it plans the question (the caller fills in op and model). Like a proposal,
  // a plan is a pure function of what was observed and asked.
  std::optional<Proposal> propose(const OperatorContext&, RandomStream&) final { return std::nullopt; }
  virtual std::optional<Brief> plan(const OperatorContext&, RandomStream&) = 0;
  virtual void asked(const Brief&, const Archive&) {
  }  // called for every brief of this operator that is asked
  // A question of any operator about `subject` was answered with directions, which replace earlier ones.
  virtual void directed(IndividualId /*subject*/, const Directions&) {}
  // Drops the directions of directed() that were not followed, if this is one of them; otherwise false.
  virtual bool drop_directions(const std::string& /*direction*/) { return false; }

  // The following two depend on their arguments only, so that a resumed search and a replay get the same
  // result from the recorded answers.

  // Adds the pieces of the first question, for the template that the registry names.
  virtual void write(const Brief&, PromptWriter&) const = 0;
  // The move after the last answer: another question, a tool call, a proposal, directions, or giving up. The
  // proposal's descent lacks model and cost.
  virtual Move next(const Conversation&) const = 0;
};

// The directions of a model for one kernel that an operator has not followed yet: each is followed once, in
// order.
class OpenDirections {
 public:
  void replace(IndividualId subject, Directions given) {
    subject_ = subject;
    open_ = std::move(given.words);
  }
  void asked(const std::string& direction) { std::erase(open_, direction); }

  bool drop(const std::string& direction) {
    if (std::ranges::find(open_, direction) == open_.end()) return false;
    open_.clear();
    return true;
  }

  // A brief for the next direction, about the best setting of its kernel. nullopt if there is none, or if the
  // kernel was rejected.
  std::optional<Brief> next(const OperatorContext& s) const {
    if (open_.empty()) return std::nullopt;
    Brief brief;
    brief.parents = {best_setting(s.archive, subject_)};
    if (s.archive.state(brief.parents.front()) != Member::State::measured) return std::nullopt;
    brief.island = s.island;
    brief.direction = open_.front();
    return brief;
  }

 private:
  IndividualId subject_ = 0;
  std::vector<std::string> open_;
};

}  // namespace cultivar
