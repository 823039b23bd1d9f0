// SPDX-License-Identifier: Apache-2.0
// The descent of individuals.
#pragma once

#include <functional>
#include <vector>

#include "population/individual.hpp"

namespace cultivar {

using ParentsOf = std::function<std::vector<IndividualId>(IndividualId)>;

// The chain from the seed to `id` by first parents (the parent whose source it continues).
std::vector<IndividualId> chain_to_seed(IndividualId id, const ParentsOf&);

// Whether one of the two is an ancestor of the other, by any parents.
bool in_one_line(IndividualId, IndividualId, const ParentsOf&);

}  // namespace cultivar
