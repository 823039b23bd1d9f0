#include "population/lineage.hpp"

#include <algorithm>
#include <stdexcept>

namespace cultivar {

std::vector<IndividualId> chain_to_seed(IndividualId id, const ParentsOf& parents_of) {
  std::vector<IndividualId> chain{id};
  for (auto parents = parents_of(id); !parents.empty(); parents = parents_of(chain.back())) {
    if (parents.front() < 1 || parents.front() >= chain.back())
      throw std::logic_error("individual " + std::to_string(chain.back()) + " names " +
                             std::to_string(parents.front()) + " as a parent, which is not older");
    chain.push_back(parents.front());
  }
  std::ranges::reverse(chain);
  return chain;
}

}  // namespace cultivar
