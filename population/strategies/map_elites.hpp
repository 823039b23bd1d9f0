// SPDX-License-Identifier: Apache-2.0
// MAP-Elites (Mouret and Clune, 2015): the best individual of each cell of a grid over what kernels are like.
#pragma once

#include <map>
#include <string>

#include "population/strategy.hpp"
#include "population/tunings.hpp"

namespace cultivar {

// The axes of the grid, each one of
// - a descriptor of the evaluation, in steps of a factor of two: for example "registers" or "shared_bytes";
// - the name of a tunable: a trait that the kernel declares, one step for each value;
// - "family": the family of its descent.
// A kernel that lacks a descriptor or a tunable has its own step there. Cells are limited: of too many, the
// weakest is emptied. A cell whose individual is expelled is empty until another one settles in it.
class MapElites : public Strategy {
 public:
  explicit MapElites(const PopulationOptions&);

  void settle(IndividualId, const Findings&, const Archive&) override;
  void revalue(IndividualId, double fitness) override;
  void expel(IndividualId) override;
  std::vector<IndividualId> parents(int island, const ParentsWanted&, const Archive&,
                                    RandomStream&) const override;
  std::vector<Elite> elites(int island) const override;
  const std::map<std::string, Elite>& cells() const { return cells_; }  // by what they are like

 private:
  std::string cell_of(IndividualId, const Findings&, const Archive&) const;

  PopulationOptions options_;
  std::map<std::string, Elite> cells_;
  Tunings tunings_;
};

}  // namespace cultivar
