// Where individuals come from.
#pragma once

#include <functional>
#include <vector>

#include "population/individual.hpp"

namespace cultivar {

using ParentsOf = std::function<std::vector<IndividualId>(IndividualId)>;

// From the seed to `id`, by first parents (the one whose source it carries on).
std::vector<IndividualId> chain_to_seed(IndividualId id, const ParentsOf&);
// Every ancestor once, oldest first, without `id` itself.
std::vector<IndividualId> ancestors(IndividualId id, const ParentsOf&);
// Every descendant of `id` among 1..count, in order of birth. Parents are always older than their children.
std::vector<IndividualId> descendants(IndividualId id, IndividualId count, const ParentsOf&);

}  // namespace cultivar
