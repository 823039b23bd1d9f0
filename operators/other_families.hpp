// SPDX-License-Identifier: Apache-2.0
// Elites of other families of kernels, as idea and change instead of their whole sources.
#pragma once

#include "operators/prompts/prompt_writer.hpp"

namespace cultivar {

// For the slot best: the best kernel, if it has another source than the subject, and the fittest one of a
// family that is neither the subject's nor the best's; dropped first if space is short.
void add_other_families(PromptWriter&);

}  // namespace cultivar
