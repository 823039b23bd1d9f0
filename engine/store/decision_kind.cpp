// SPDX-License-Identifier: Apache-2.0
#include "engine/store/decision_kind.hpp"

#include <algorithm>
#include <array>

namespace cultivar {

namespace {

constexpr std::array<std::string_view, 16> kDecisionNames = {
    "session",   "ask",  "give_up", "direct", "propose", "put_off", "judge",     "migrate",
    "challenge", "duel", "confirm", "pace",   "promote", "expel",   "intervene", "outcome"};
static_assert(kDecisionNames.size() == static_cast<std::size_t>(DecisionKind::outcome) + 1);

}  // namespace

std::string_view name_of(DecisionKind kind) {
  return kDecisionNames.at(static_cast<std::size_t>(kind));
}

std::optional<DecisionKind> decision_named(std::string_view name) {
  const auto* const found = std::find(kDecisionNames.begin(), kDecisionNames.end(), name);
  if (found == kDecisionNames.end()) return std::nullopt;
  return static_cast<DecisionKind>(found - kDecisionNames.begin());
}

}  // namespace cultivar
