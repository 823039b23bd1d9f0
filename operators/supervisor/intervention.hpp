// SPDX-License-Identifier: Apache-2.0
// A deliberate change of how a stagnating search proposes, why it was made, and what it gave.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "population/individual.hpp"

namespace cultivar {

// Why a search is said to stagnate. The names are in records.
enum class Trigger : std::uint8_t {
  evaluations,   // none promoted during so many evaluations
  device_time,   // none promoted during so many seconds of checks and measurements
  cost,          // none promoted for so many USD
  failures,      // the proposals of one operator were rejected at one stage, so often in a row
  repetition,    // so many of the last proposals or questions repeated an earlier one
  unprofitable,  // so many proposals of one operator in a row were not faster than their parent
  roofline       // the best is so near to what the device was seen to do
};
inline constexpr std::size_t kTriggers = 7;

// What is done about it during the next proposals.
enum class Answer : std::uint8_t {
  direction,  // other directions than the latest ones; more questions
  parent,     // other sources than the latest ones as parents
  ancestor,   // a new line from an ancestor of the best, on an island of its own if there are islands
  tuning,     // more tuning, of other sources than the latest ones
  plan,       // a model is asked for strategies
  reset       // the least promising island begins anew, and is bred from
};
inline constexpr std::size_t kAnswers = 6;

std::string_view name_of(Trigger);
std::string_view name_of(Answer);
std::optional<Trigger> trigger_named(std::string_view);
std::optional<Answer> answer_named(std::string_view);

struct Intervention {
  std::int64_t number = 0;  // 1, 2, 3, ...
  Trigger trigger = Trigger::evaluations;
  Answer answer = Answer::direction;
  double seen = 0.0;          // what the trigger counted, in its unit
  std::string subject = {};   // failures: the stage; failures, unprofitable: the operator, with its model
  IndividualId ancestor = 0;  // of Answer::ancestor

  friend bool operator==(const Intervention&, const Intervention&) = default;
};

// What was judged of the proposals that an intervention led to, until it ended.
struct InterventionResult {
  std::int64_t number = 0;
  std::int64_t evaluated = 0, measured = 0, promoted = 0;
  double best_gain = 0.0;  // the largest ratio to its parent, minus 1; 0: none was faster

  friend bool operator==(const InterventionResult&, const InterventionResult&) = default;
};

}  // namespace cultivar
