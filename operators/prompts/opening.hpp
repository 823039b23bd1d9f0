// SPDX-License-Identifier: Apache-2.0
// Creates the first question of a dialogue from its pieces.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "operators/llm/chat.hpp"
#include "operators/prompts/prompt.hpp"
#include "operators/prompts/prompt_context.hpp"

namespace cultivar {

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
