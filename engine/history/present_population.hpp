// SPDX-License-Identifier: Apache-2.0
// Which individuals a search keeps as parents: its strategy as it is after the last decision of the record,
// without the task, operators and models that a whole Breeding needs.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/store/record.hpp"
#include "population/strategy.hpp"

namespace cultivar {

class PresentPopulation {
 public:
  struct Move {
    Migration migration;
    double elapsed_s = 0.0;  // of search time
  };

  // Throws InputError when the recorded configuration has no readable population.
  explicit PresentPopulation(const Record&);

  // Applies the decisions since the last call; the first one reads the whole record. Always with the same
  // run. Throws as apply_decisions() does, and is of no use after that.
  void update(const Record&);

  const PopulationOptions& options() const { return options_; }
  const Strategy& strategy() const { return *strategy_; }
  // Of map_elites, with what the elites are like, the fittest first; empty for other strategies.
  std::vector<std::pair<std::string, Elite>> cells() const;
  const std::deque<Move>& moves() const { return moves_; }  // between islands, the newest 100
  std::int64_t moved() const { return moved_; }             // of all

 private:
  PopulationOptions options_;
  std::unique_ptr<Strategy> strategy_;
  Archive archive_;
  std::deque<Move> moves_;
  std::int64_t seq_ = 0, moved_ = 0;
  IndividualId incumbent_ = 0;
  double pace_ = 1.0;
};

}  // namespace cultivar
