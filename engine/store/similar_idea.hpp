// SPDX-License-Identifier: Apache-2.0
// Finds proposals that repeat an earlier idea, before they are measured.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "engine/breeding/breeding.hpp"
#include "engine/store/record.hpp"
#include "operators/agent/tool_outcome.hpp"
#include "operators/prompts/prompt.hpp"

namespace cultivar {

using TextOf = std::function<std::string(const std::string& source_id)>;

// The newest individual whose change of its parent is nearly that from `parent` to `source`, of those that a
// model or a person wrote and that descend from the same seed; 0: none. `parent` 0, for a complete source
// whose base is unknown: the newest individual whose change of its parent is nearly that from this parent to
// `source`, or that has no parent and the same code. `partners`, whose changes a crossover is asked to take
// over, do not count.
IndividualId similar_change(const Archive&, const TextOf&, const std::string& source, IndividualId parent,
                            std::span<const IndividualId> partners = {});

// The same for a kernel from outside of the search: what that one is and what it gave, as text; empty if
// there is none, or if only values of tunables of `parent` differ.
std::string similar_earlier(const Record&, const std::string& source, IndividualId parent);

// Compares the proposal's change of its parent with the changes of the newest individuals that descend from
// the same seed. If one is nearly the same (operators/edits/similarity.hpp): what it gave, for the model,
// as a result in the dialogue, whose tool is kSimilarIdea.
std::optional<ToolOutcome> similar_idea(const Record&, const Breeding&, const PromptKit&, const Proposal&);

}  // namespace cultivar
