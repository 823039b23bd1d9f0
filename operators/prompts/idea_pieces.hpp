// SPDX-License-Identifier: Apache-2.0
// The pieces of a prompt that tell what the search has learned and what it has tried.
#pragma once

#include "operators/prompts/prompt_writer.hpp"

namespace cultivar {

// For the slot insights, which is the first one of each template, because it changes least.
void add_insights(PromptWriter&);
// For the slot ideas: what is being tried, what gained, and what did not, outside of the subject's lineage.
void add_ideas(PromptWriter&);
// Of the whole run: the largest gains, then all, newest first.
void add_all_ideas(PromptWriter&);

}  // namespace cultivar
