// What a tool call of an agent's dialogue gave: what the record keeps, so that what follows can be told
// again.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "evaluators/variant/tunables.hpp"

namespace cultivar {

// A kernel that a conversation made, by the id that later calls name it with.
struct MadeDraft {
  std::string id, source;
  Configuration configuration;
  std::string base;  // what it was made from; empty: sent whole

  friend bool operator==(const MadeDraft&, const MadeDraft&) = default;
};

// A kernel that was handed over, with the model's words on it.
struct HandedOver {
  std::string source;
  Configuration configuration;
  std::string note;

  friend bool operator==(const HandedOver&, const HandedOver&) = default;
};

struct ToolOutcome {
  std::size_t index = 0;  // of the call, in its answer
  std::string tool, text;
  bool failed = false;
  double device_s = 0.0;
  std::vector<MadeDraft> drafts;  // that it made
  std::optional<HandedOver> handed_over;

  friend bool operator==(const ToolOutcome&, const ToolOutcome&) = default;
};

}  // namespace cultivar
