// Who breeds.
#pragma once

#include <vector>

#include "population/archive.hpp"
#include "population/islands.hpp"
#include "population/random.hpp"

namespace cultivar {

// `count` different parents from one island, fittest first; fewer when the island has fewer. Each is the
// winner of a tournament among the elites or, with the chance `explore`, any measured individual of the
// island.
std::vector<IndividualId> choose_parents(const Islands&, const Archive&, const IslandOptions&, int island,
                                         int count, RandomStream&);

}  // namespace cultivar
