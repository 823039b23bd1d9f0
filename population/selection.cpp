#include "population/selection.hpp"

#include <algorithm>

namespace cultivar {

namespace {

IndividualId choose(const Islands& islands, const IslandOptions& options, int island, RandomStream& stream) {
  const auto& elites = islands.elites(island);
  const auto& members = islands.members(island);
  const bool explore = uniform(stream) < options.explore;
  if ((explore || elites.empty()) && !members.empty()) return members[below(stream, members.size())];
  std::size_t best = below(stream, elites.size());  // elites are sorted, so the smallest index is the fittest
  for (int i = 1; i < options.tournament; ++i) best = std::min(best, below(stream, elites.size()));
  return elites[best].id;
}

}  // namespace

std::vector<IndividualId> choose_parents(const Islands& islands, const Archive& archive,
                                         const IslandOptions& options, int island, int count,
                                         RandomStream& stream) {
  std::vector<IndividualId> parents;
  if (islands.elites(island).empty() && islands.members(island).empty()) return parents;
  // Draws again until the parents differ. The number of attempts is limited, because an island may have too
  // few.
  for (int tries = 0; tries < 8 * count && static_cast<int>(parents.size()) < count; ++tries) {
    const IndividualId id = choose(islands, options, island, stream);
    if (std::ranges::find(parents, id) == parents.end()) parents.push_back(id);
  }
  std::ranges::sort(parents, [&](IndividualId a, IndividualId b) {
    const double fa = archive.fitness(a), fb = archive.fitness(b);
    return fa != fb ? fa > fb : a < b;
  });
  return parents;
}

}  // namespace cultivar
