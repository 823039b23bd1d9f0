// SPDX-License-Identifier: Apache-2.0
// The recorded result of a tool call of an agent's dialogue, from which the rest of the dialogue can be
// reproduced.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "evaluators/variant/tunables.hpp"
#include "population/individual.hpp"

namespace cultivar {

// A kernel that a conversation created, with the id that later calls use.
struct MadeDraft {
  std::string id, source;
  Configuration configuration;
  std::string base;  // the kernel that it edits; empty if it was sent as a complete source

  friend bool operator==(const MadeDraft&, const MadeDraft&) = default;
};

// A submitted kernel, with the model's note.
struct SubmittedKernel {
  std::string source;
  Configuration configuration;
  std::string note;
  IndividualId from = 0;  // of the run, that it was made from; 0: unknown, as in records of earlier versions

  friend bool operator==(const SubmittedKernel&, const SubmittedKernel&) = default;
};

// The `tool` of a result that no tool gave: the search found that the answer's proposal repeats an earlier
// idea, and tells what that one gave. At most one in a dialogue.
inline constexpr const char* kSimilarIdea = "similar_idea";

struct ToolOutcome {
  std::size_t index = 0;  // of the call in its answer
  std::string tool, text;
  bool failed = false;
  double device_s = 0.0;
  std::vector<MadeDraft> drafts;  // created by the call
  std::optional<SubmittedKernel> handed_over;

  friend bool operator==(const ToolOutcome&, const ToolOutcome&) = default;
};

}  // namespace cultivar
