// The dialogue of the operator `agent`: a model calls tools, step by step, until it submits a kernel or its
// budget is spent. A pure function of the brief, the answers and what the tools gave, all of which the record
// keeps.
#pragma once

#include <vector>

#include "operators/dialogue.hpp"

namespace cultivar {

inline constexpr std::size_t kCallsAnAnswer =
    8;  // others are not run and left out of what follows, and the model is told how many

// What follows the last of `turns`: a call to be run, the next request with the results, the kernel that was
// handed over as a proposal, or giving up. When one more step, or the tokens of one more, are all that is
// left, or the device's time is used up, the model is told that it must submit; in that step nothing but
// `submit` is run.
Move agent_move(const Brief&, const PromptKit&, const std::vector<Turn>& turns);

// What its model is offered.
std::vector<ToolSpec> agent_tool_specs();

// The budget in words, for its first question.
std::string budget_words(const AgentBudget&);

}  // namespace cultivar
