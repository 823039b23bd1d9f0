#include "operators/crossover.hpp"

namespace cultivar {

std::optional<Brief> Crossover::plan(const Surroundings& s, RandomStream&) {
  if (s.parents.size() < 2) return std::nullopt;
  const std::string &first = s.archive.source_id(s.parents[0]), &second = s.archive.source_id(s.parents[1]);
  if (first == second || tried_.contains({first, second})) return std::nullopt;
  Brief brief;
  brief.parents = {s.parents[0], s.parents[1]};
  brief.island = s.island;
  brief.direction = "one kernel with what each of the two does better";
  return brief;
}

void Crossover::asked(const Brief& brief, const Archive& archive) {
  ++tried_[{archive.source_id(brief.parents.at(0)), archive.source_id(brief.parents.at(1))}];
}

}  // namespace cultivar
