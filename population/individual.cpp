// SPDX-License-Identifier: Apache-2.0
#include "population/individual.hpp"

#include <algorithm>
#include <set>
#include <stdexcept>

namespace cultivar {

std::string name_of(Origin origin, const std::string& op) {
  switch (origin) {
    case Origin::seed:
      return "seed";
    case Origin::submission:
      return "submit";
    case Origin::operator_:
      break;
  }
  return op;
}

void set_origin(Descent& descent, std::string_view name) {
  descent.origin = name == "seed" ? Origin::seed : name == "submit" ? Origin::submission : Origin::operator_;
  descent.op = descent.origin == Origin::operator_ ? std::string(name) : std::string();
}

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

bool in_one_line(IndividualId a, IndividualId b, const ParentsOf& parents_of) {
  const IndividualId older = std::min(a, b);
  // An ancestor is older, so nothing older than the older one needs a look.
  std::vector<IndividualId> next{std::max(a, b)};
  std::set<IndividualId> seen;
  while (!next.empty()) {
    const IndividualId id = next.back();
    next.pop_back();
    if (id == older) return true;
    if (id < older || !seen.insert(id).second) continue;
    for (const IndividualId parent : parents_of(id)) next.push_back(parent);
  }
  return false;
}

}  // namespace cultivar
