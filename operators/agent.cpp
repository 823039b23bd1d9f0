// SPDX-License-Identifier: Apache-2.0
#include "operators/agent.hpp"

#include "operators/agent/agent_dialogue.hpp"
#include "operators/prompts/idea_pieces.hpp"
#include "population/archive.hpp"

namespace cultivar {

std::optional<Brief> Agent::plan(const OperatorContext& s, RandomStream&) {
  if (s.parents.empty()) return std::nullopt;
  if (auto brief = given_.next(s)) return brief;
  Brief brief;
  brief.parents = {best_setting(s.archive, s.parents.front())};
  brief.island = s.island;
  const auto before = worked_on_.find(s.archive.source_id(s.parents.front()));
  brief.direction = before == worked_on_.end()
                        ? "find out what limits this kernel, and make one that is faster"
                        : "make a faster kernel, another way than was tried on this line before";
  return brief;
}

void Agent::directed(IndividualId subject, const Directions& given) {
  given_.replace(subject, given);
}

void Agent::asked(const Brief& brief, const Archive& archive) {
  given_.asked(brief.direction);
  ++worked_on_[archive.source_id(brief.parents.front())];
}

void Agent::write(const Brief& brief, PromptWriter& to) const {
  add_subject(to);
  add_other_families(to);
  to.add_lineage();
  to.add_failures();
  add_ideas(to);
  to.add_notes();
  to.add("direction", brief.direction, 0);
  to.add("budget", budget_words(to.kit().options().tools), 0);
}

Move Agent::next(const Conversation& c) const {
  return agent_move(c.brief, c.kit, c.turns);
}

}  // namespace cultivar
