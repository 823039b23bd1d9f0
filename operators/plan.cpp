// SPDX-License-Identifier: Apache-2.0
#include "operators/plan.hpp"

#include <fmt/format.h>
#include <algorithm>

#include "evaluators/system/plain_text.hpp"
#include "operators/prompts/idea_pieces.hpp"
#include "operators/reply.hpp"
#include "population/archive.hpp"

namespace cultivar {

namespace {

constexpr std::size_t kFewestStrategies = 3, kMostStrategies = 5;
constexpr std::size_t kShortestStrategy = 15, kLongestStrategy = 300;  // bytes
constexpr std::size_t kShownStrategy = 80;                             // bytes of a strategy in a refusal

std::vector<std::string> strategies_in(const std::string& answer) {
  std::vector<std::string> all = all_said_after("STRATEGY:", answer, kLongestStrategy + 1);
  for (std::string& text : all)
    while (!text.empty() && (text.back() == ' ' || text.back() == '*' || text.back() == '.')) text.pop_back();
  return all;
}

// The reason why these strategies cannot be used; empty if they can.
std::string flaw_of(const std::vector<std::string>& strategies) {
  if (strategies.size() < kFewestStrategies || strategies.size() > kMostStrategies)
    return fmt::format("It has {} lines that start with `STRATEGY: `; {} to {} are required.",
                       strategies.size(), kFewestStrategies, kMostStrategies);
  for (std::size_t i = 0; i < strategies.size(); ++i) {
    const std::string& one = strategies[i];
    if (one.size() < kShortestStrategy)
      return fmt::format("Strategy {} (\"{}\") is too short to be implemented.", i + 1, one);
    if (one.size() > kLongestStrategy)
      return fmt::format("Strategy {} (\"{}\") has more than {} bytes.", i + 1,
                         one_line_of(one, kShownStrategy), kLongestStrategy);
    if (std::find(strategies.begin(), strategies.begin() + static_cast<std::ptrdiff_t>(i), one) !=
        strategies.begin() + static_cast<std::ptrdiff_t>(i))
      return fmt::format("Strategy {} (\"{}\") occurs twice.", i + 1, one_line_of(one, kShownStrategy));
  }
  return {};
}

}  // namespace

void PlanOperator::observe(IndividualId id, const Archive& archive) {
  if (archive.duplicate_of(id) != 0 || !sources_.insert(archive.source_id(id)).second) return;
  ++news_;
  if (archive.origin(id) != Origin::seed) ++written_;
}

std::optional<Brief> PlanOperator::plan(const OperatorContext& s, RandomStream&) {
  constexpr int kNews = 6;  // more than a plan has strategies, so that these are tried before the next plan
  if (asked_ && news_ < kNews && !s.must_plan) return std::nullopt;
  // A plan for a seed is out of date as soon as the first answer is evaluated, which is often many times as
  // fast.
  constexpr int kFirstAnswers = 2;
  if (s.frugal && !asked_ && written_ < kFirstAnswers && !s.must_plan) return std::nullopt;
  const IndividualId best = fittest_of(s.archive, [](const std::string&) { return true; });
  if (best == 0) return std::nullopt;
  Brief brief;
  brief.parents = {best};
  brief.island = s.island;
  brief.direction = "which strategies to follow next";
  return brief;
}

void PlanOperator::asked(const Brief&, const Archive&) {
  asked_ = true;
  news_ = 0;
}

void PlanOperator::write(const Brief&, PromptWriter& to) const {
  add_subject(to);
  to.add_trajectory();
  add_ideas(to);
  to.add_failures();
  to.add_notes();
}

Move PlanOperator::next(const Conversation& c) const {
  const ChatAnswer& answer = c.turns.back().answer;
  std::vector<std::string> strategies = strategies_in(answer.text);
  const std::string flaw =
      answer.stop == StopReason::length ? "It was cut off because it was too long." : flaw_of(strategies);
  if (flaw.empty()) return Directions{std::move(strategies)};
  return ask_again(c, static_cast<int>(c.turns.size()), flaw,
                   fmt::format("Send {} to {} lines `STRATEGY: ...`, each with one strategy of at most {} "
                               "bytes, and no code.",
                               kFewestStrategies, kMostStrategies, kLongestStrategy));
}

}  // namespace cultivar
