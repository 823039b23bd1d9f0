// Parent selection.
#pragma once

#include <vector>

#include "evaluators/system/random.hpp"
#include "population/archive.hpp"
#include "population/islands.hpp"

namespace cultivar {

// Returns `count` different parents from one island, fittest first; fewer if the island has fewer. Each is
// the winner of a tournament among the elites or, with probability `explore`, any measured individual of the
// island.
std::vector<IndividualId> choose_parents(const Islands&, const Archive&, const IslandOptions&, int island,
                                         int count, RandomStream&);

}  // namespace cultivar
