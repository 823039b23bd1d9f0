// SPDX-License-Identifier: Apache-2.0
// The pieces of a prompt that tell what the search has learned, what it has tried and what else it has.
#pragma once

#include "operators/prompts/prompt_writer.hpp"

namespace cultivar {

// For the slot insights, which is the first one of each template, because it changes least.
void add_insights(PromptWriter&);
// For the slot ideas: what is being tried, what gained, and what did not, outside of the subject's lineage.
void add_ideas(PromptWriter&);
// Of the whole run: the largest gains, then all, newest first.
void add_all_ideas(PromptWriter&);

// For the slot parent, after the measurements: kernels of the subject's source with other values, those that
// differ in the fewest values first, then by their effect.
void add_tried_values(PromptWriter&);

// What each question about a kernel tells first: the insights; the kernel, its measurements, other values of
// its tunables, its report and how it compares.
void add_subject(PromptWriter&);

// Elites of other families of kernels, as idea and change instead of their whole sources.

// For the slot best: the best kernel, if it has another source than the subject, and the fittest one of a
// family that is neither the subject's nor the best's; dropped first if space is short.
void add_other_families(PromptWriter&);

}  // namespace cultivar
