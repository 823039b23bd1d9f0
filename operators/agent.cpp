#include "operators/agent.hpp"

#include "operators/best_setting.hpp"

namespace cultivar {

std::optional<Brief> Agent::plan(const Surroundings& s, RandomStream&) {
  if (s.parents.empty()) return std::nullopt;
  Brief brief;
  brief.parents = {best_setting(s.archive, s.parents.front())};
  brief.island = s.island;
  const auto before = worked_on_.find(s.archive.source_id(s.parents.front()));
  brief.direction = before == worked_on_.end()
                        ? "find out what limits this kernel, and make one that is faster"
                        : "make a faster kernel, another way than was tried on this line before";
  return brief;
}

void Agent::asked(const Brief& brief, const Archive& archive) {
  ++worked_on_[archive.source_id(brief.parents.front())];
}

}  // namespace cultivar
