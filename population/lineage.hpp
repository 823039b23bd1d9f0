// The descent of individuals.
#pragma once

#include <functional>
#include <vector>

#include "population/archive.hpp"
#include "population/individual.hpp"

namespace cultivar {

using ParentsOf = std::function<std::vector<IndividualId>(IndividualId)>;

// The chain from the seed to `id` by first parents (the parent whose source it continues).
std::vector<IndividualId> chain_to_seed(IndividualId id, const ParentsOf&);

// Whether one of the two is an ancestor of the other, by any parents.
bool in_one_line(IndividualId, IndividualId, const ParentsOf&);

// The family of an individual: all that descend, by first parents, from one source that was written from a
// founder (a seed or a submission). It is named by the first individual of that source; what still has a
// founder's source belongs to the founder's own family.
IndividualId family_of(IndividualId, const Archive&);

}  // namespace cultivar
