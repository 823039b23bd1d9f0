// SPDX-License-Identifier: Apache-2.0
#include "operators/reflect.hpp"

#include <fmt/format.h>

#include "evaluators/system/plain_text.hpp"
#include "operators/prompts/idea_pieces.hpp"
#include "operators/reply.hpp"
#include "population/archive.hpp"

namespace cultivar {

namespace {

constexpr std::size_t kFewestInsights = 2, kMostInsights = 12, kShortestInsight = 15,
                      kLongestInsight = 400;  // insights; bytes of one

// The reason why these insights cannot be used; empty if they can.
std::string flaw_in(const std::vector<std::string>& insights) {
  if (insights.size() < kFewestInsights || insights.size() > kMostInsights)
    return fmt::format("It has {} lines that start with `INSIGHT: `; {} to {} are required.", insights.size(),
                       kFewestInsights, kMostInsights);
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < insights.size(); ++i) {
    const std::string& one = insights[i];
    bytes += one.size();
    if (one.size() < kShortestInsight || one.size() > kLongestInsight)
      return fmt::format("Insight {} (\"{}\") has {} bytes; {} to {} are required.", i + 1,
                         one_line_of(one, 80), one.size(), kShortestInsight, kLongestInsight);
  }
  if (bytes <= kInsightBytes) return {};
  return fmt::format("The insights have {} bytes together; at most {} are allowed.", bytes, kInsightBytes);
}

}  // namespace

void Reflect::observe(IndividualId id, const Archive& archive) {
  if (archive.duplicate_of(id) == 0 && sources_.insert(archive.source_id(id)).second) ++news_;
}

std::optional<Brief> Reflect::plan(const OperatorContext& s, RandomStream&) {
  constexpr int kNews = 8;
  if (news_ < kNews) return std::nullopt;
  const IndividualId best = fittest_of(s.archive, [](const std::string&) { return true; });
  if (best == 0) return std::nullopt;
  Brief brief;
  brief.parents = {best};
  brief.island = s.island;
  brief.direction = "what the results so far teach";
  return brief;
}

void Reflect::asked(const Brief&, const Archive&) {
  news_ = 0;
}

void Reflect::write(const Brief&, PromptWriter& to) const {
  add_insights(to);
  add_all_ideas(to);  // before the others: of equal rank, the last is left out first
  to.add_kernel_briefly();
  to.add_measurements();
  add_tried_values(to);
  to.add_report();
  to.add_standing();
}

Move Reflect::next(const Conversation& c) const {
  const ChatAnswer& answer = c.turns.back().answer;
  std::vector<std::string> insights = all_said_after("INSIGHT:", answer.text, kLongestInsight + 1);
  const std::string flaw =
      answer.stop == StopReason::length ? "It was cut off because it was too long." : flaw_in(insights);
  if (flaw.empty()) return Directions{std::move(insights)};
  return ask_again(
      c, static_cast<int>(c.turns.size()), flaw,
      fmt::format("Send {} to {} lines `INSIGHT: ...`, each of at most {} bytes, together at most "
                  "{} bytes, and no code.",
                  kFewestInsights, kMostInsights, kLongestInsight, kInsightBytes));
}

}  // namespace cultivar
