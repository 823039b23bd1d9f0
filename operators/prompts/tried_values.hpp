// SPDX-License-Identifier: Apache-2.0
// What other values of a kernel's tunables gave, as a question tells it.
#pragma once

#include "operators/prompts/prompt_writer.hpp"

namespace cultivar {

// For the slot parent, after the measurements: kernels of the subject's source with other values, those that
// differ in the fewest values first, then by their effect.
void add_tried_values(PromptWriter&);

}  // namespace cultivar
