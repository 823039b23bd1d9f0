#include "population/lineage.hpp"

#include <algorithm>
#include <set>
#include <stdexcept>

namespace cultivar {

namespace {

void require_older(IndividualId parent, IndividualId child) {
  if (parent < 1 || parent >= child)
    throw std::logic_error("individual " + std::to_string(child) + " names " + std::to_string(parent) +
                           " as a parent, which is not older");
}

}  // namespace

std::vector<IndividualId> chain_to_seed(IndividualId id, const ParentsOf& parents_of) {
  std::vector<IndividualId> chain{id};
  for (auto parents = parents_of(id); !parents.empty(); parents = parents_of(chain.back())) {
    require_older(parents.front(), chain.back());
    chain.push_back(parents.front());
  }
  std::ranges::reverse(chain);
  return chain;
}

std::vector<IndividualId> ancestors(IndividualId id, const ParentsOf& parents_of) {
  std::set<IndividualId> found, next{id};
  while (!next.empty()) {
    const IndividualId child = *next.rbegin();
    next.erase(child);
    for (const IndividualId parent : parents_of(child)) {
      require_older(parent, child);
      if (found.insert(parent).second) next.insert(parent);
    }
  }
  return {found.begin(), found.end()};
}

std::vector<IndividualId> descendants(IndividualId id, IndividualId count, const ParentsOf& parents_of) {
  std::set<IndividualId> family{id};
  std::vector<IndividualId> found;
  for (IndividualId child = id + 1; child <= count; ++child) {
    const auto parents = parents_of(child);
    if (std::ranges::any_of(parents, [&](IndividualId parent) { return family.contains(parent); })) {
      family.insert(child);
      found.push_back(child);
    }
  }
  return found;
}

}  // namespace cultivar
