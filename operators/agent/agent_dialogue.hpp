// SPDX-License-Identifier: Apache-2.0
// The dialogue of the operator `agent`: a model calls tools, step by step, until it submits a kernel or its
// budget is exhausted. A pure function of the brief, the answers and the tools' results, which are all
// recorded.
#pragma once

#include <vector>

#include "operators/asking_operator.hpp"

namespace cultivar {

inline constexpr std::size_t kCallsAnAnswer =
    8;  // further calls are not run; the model is told how many were skipped

// What follows the last of `turns`: a call to run, the next request with the results, the submitted kernel as
// a proposal, or giving up. When only one step or the tokens of one step are left, or the device time is
// exhausted, the model is told that it must submit; in that step only `submit` is run.
Move agent_move(const Brief&, const PromptKit&, const std::vector<Turn>& turns);

// The tools that the model is offered.
std::vector<ToolSpec> agent_tool_specs(Target);

// The budget as text, for the first question.
std::string budget_words(const ToolBudget&);

}  // namespace cultivar
