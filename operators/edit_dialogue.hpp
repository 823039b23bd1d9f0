// SPDX-License-Identifier: Apache-2.0
// The dialogue of operators whose answers are edits of the parent: an edit that cannot be applied is sent
// back with the reason; a usable one becomes a proposal.
#pragma once

#include <cstddef>
#include <string>

#include "operators/asking_operator.hpp"

namespace cultivar {

// The part of a conversation before its first edit.
struct BeforeEdits {
  std::size_t turns = 0;
  int refused = 0;         // answers that count against the edit's own limit
  std::string cause = {};  // of a repair: noted with its idea
};

// A source with an invalid manifest is sent back to the model, like an edit that cannot be applied; after the
// last try it is proposed anyway, so that lint rejects it and the reason is recorded.
Move edit_move(const Conversation&, const BeforeEdits& = {});

// Checks limits on a source's manifest that the search needs. Empty if they are met; otherwise a message for
// the model.
std::string too_many(const Manifest&);

// The values of a new source's tunables: the parent's value if the tunable is unchanged, otherwise the
// default.
Configuration inherited(const Manifest& child, const Manifest& parent, const Configuration&);

}  // namespace cultivar
