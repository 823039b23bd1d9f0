// SPDX-License-Identifier: Apache-2.0
// Messages that are sent back to a model after its answer, marked lines of an answer, and what follows an
// answer with edits.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "operators/asking_operator.hpp"

namespace cultivar {

// Continues the conversation with `text`. The part of the last answer that is sent back is limited to the
// size of a first question.
ChatRequest reply_to(const Turn& last, std::string text, const PromptKit&);

// Refuses the last answer, the `refused`-th unusable one of this conversation: it is sent back with the
// reason and the remedy, or, after as many as the kit allows, the question is given up.
Move ask_again(
    const Conversation&, int refused, const std::string& reason,
    std::string_view remedy = "Nothing of the answer was applied: send the complete answer again.");

// The end of a question to which no text came: all output tokens went into reasoning, so that the same limit
// would bring the same; or the second answer in a row is blank. nullopt if the last answer may be used or
// sent back. `next`: what the operator would do.
std::optional<GivenUp> nothing_came(const std::vector<Turn>&, const Move& next);
// That end, after an answer without text.
GivenUp without_text(const Turn&);

// The rest of each line that starts with `mark` ("STRATEGY:"), after Markdown's marks of lists and emphasis,
// of at most `most` bytes.
std::vector<std::string> all_said_after(std::string_view mark, const std::string& answer, std::size_t most);
// The rest of the first one; empty if there is none.
std::string said_after(std::string_view mark, const std::string& answer);

// The end of a question whose answer declines: it has a line `DECLINE: reason` and no edit. nullopt for other
// answers, and if the run's prompts do not offer it, as those of records of earlier versions.
std::optional<GivenUp> declined(const ChatAnswer&, const PromptKit&);

// The dialogue of operators whose answers are edits of the parent: an edit that cannot be applied is sent
// back with the reason; a usable one becomes a proposal.

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
