// SPDX-License-Identifier: Apache-2.0
// A parent that a strategy keeps, and the moves of parents between the parts of a population.
#pragma once

#include <string>
#include <vector>

#include "population/individual.hpp"

namespace cultivar {

// A kernel that is slower than another one by this factor is left behind: changes of it teach little about
// that one.
inline constexpr double kLeftBehind = 1.5;

struct Elite {
  IndividualId id = 0;
  double fitness = 0.0;
  bool immigrant = false;  // born on another island
  std::string source = {};
  IndividualId family = 0;
  std::vector<double> workload_values = {};  // in the order of the search's workloads

  friend bool operator==(const Elite&, const Elite&) = default;
};

// Sorts the fittest first; of equals the older one, so that the order never depends on chance.
inline bool fitter(const Elite& a, const Elite& b) {
  return a.fitness != b.fitness ? a.fitness > b.fitness : a.id < b.id;
}

struct Migration {
  IndividualId id = 0;
  int from = 0, to = 0;
  bool reset = false;  // all others left the island before it came; `from` is `to` if it was on no other

  friend bool operator==(const Migration&, const Migration&) = default;
};

}  // namespace cultivar
