// SPDX-License-Identifier: Apache-2.0
// What the record knows about the speed of individuals: the ratio of a duel, where there was one, and
// otherwise the measurement.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "engine/store/record.hpp"
#include "population/individual.hpp"

namespace cultivar {

// Reads what it is asked for, once: for a few individuals of a record, or all of them. Not thread-safe; the
// record outlives it.
class Standings {
 public:
  explicit Standings(const Record& record) : record_(record) {}

  // Its last duel that timed both sides; nullptr if there was none. Workloads are in the order of the record.
  const DuelResult* duel(IndividualId);
  // The fitness of the incumbent of that duel, times the ratio; the incumbent's follows from its own duel,
  // and so on to the first incumbent. Without a duel the fitness as measured, divided by the pace of that
  // time, as in the search (Breeding::paced). 0: not measured.
  double fitness(IndividualId);
  double fitness(const IndividualRow&);  // the same, for a row that is read already

 private:
  struct Numbered {
    std::int64_t number = 0;
    DuelResult result;
  };
  const std::vector<Numbered>& duels_of(IndividualId);
  bool challenged(IndividualId);
  double pace(const Individual&);  // when it was measured

  const Record& record_;
  std::map<IndividualId, std::vector<Numbered>> duels_;       // in order
  std::optional<std::set<IndividualId>> challengers_ = {};    // of all duels
  std::optional<std::map<IndividualId, double>> paces_ = {};  // other than 1
  std::optional<IndividualId> first_incumbent_ = {};          // 0: none
};

}  // namespace cultivar
