// SPDX-License-Identifier: Apache-2.0
// The first question of a brief, and the move after each answer, by the operator that the registry has under
// the brief's name. It need not be in the current configuration: a record may hold briefs of others.
#pragma once

#include <string>
#include <vector>

#include "operators/asking_operator.hpp"
#include "operators/prompts/prompt_context.hpp"

namespace cultivar {

// Created once, when it is asked, and then recorded. `left_out`, if given, receives what did not fit the
// token limit.
ChatRequest first_question(const Brief&, const PromptContext&, const PromptKit&,
                           std::vector<std::string>* left_out = nullptr);

// The move after the last of `turns`, which must not be empty.
Move next_move(const Brief&, const EditedParent&, const Task&, const PromptKit&,
               const std::vector<Turn>& turns);

}  // namespace cultivar
