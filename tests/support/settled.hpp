// SPDX-License-Identifier: Apache-2.0
// Individuals for the tests of strategies: each is added to an archive, judged, and given to a strategy.
#pragma once

#include <string>
#include <vector>

#include "population/strategy.hpp"

namespace cultivar::testing {

struct Born {
  double fitness = 1.0;
  int island = 0;
  std::string source = {};  // empty: its own
  std::vector<IndividualId> parents = {};
  std::vector<double> workload_values = {};
  std::map<std::string, double> descriptors = {};
  Configuration configuration = {};
  bool founder = false;
};

// The next individual of the archive, measured. Returns its id.
inline IndividualId settle(Strategy& strategy, Archive& archive, const Born& born) {
  Individual individual;
  individual.id = archive.size() + 1;
  individual.source_id = born.source.empty() ? "source of " + std::to_string(individual.id) : born.source;
  individual.configuration = born.configuration;
  set_origin(individual.descent, born.founder ? "seed" : "mutate");
  individual.descent.parents = born.parents;
  individual.descent.island = born.island;
  archive.add(individual);
  archive.judge(individual.id, true, born.fitness);
  Findings findings{true, born.fitness};
  findings.workload_values = born.workload_values;
  findings.descriptors = born.descriptors;
  strategy.settle(individual.id, findings, archive);
  return individual.id;
}

}  // namespace cultivar::testing
