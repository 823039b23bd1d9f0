// SPDX-License-Identifier: Apache-2.0
#include "operators/supervisor/intervention.hpp"

#include <algorithm>

namespace cultivar {

namespace {

// In the order of the enumerators.
constexpr std::array<std::string_view, kTriggers> kTriggerNames{
    "evaluations", "device_time", "cost", "failures", "repetition", "unprofitable", "roofline"};
constexpr std::array<std::string_view, kAnswers> kAnswerNames{"direction", "parent", "ancestor",
                                                              "tuning",    "plan",   "reset"};

template <class Named, std::size_t Count>
std::optional<Named> named(const std::array<std::string_view, Count>& names, std::string_view name) {
  const auto* const found = std::ranges::find(names, name);
  if (found == names.end()) return std::nullopt;
  return static_cast<Named>(found - names.begin());
}

}  // namespace

std::string_view name_of(Trigger trigger) {
  return kTriggerNames.at(static_cast<std::size_t>(trigger));
}

std::string_view name_of(Answer answer) {
  return kAnswerNames.at(static_cast<std::size_t>(answer));
}

std::optional<Trigger> trigger_named(std::string_view name) {
  return named<Trigger>(kTriggerNames, name);
}

std::optional<Answer> answer_named(std::string_view name) {
  return named<Answer>(kAnswerNames, name);
}

}  // namespace cultivar
