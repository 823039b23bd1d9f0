// SPDX-License-Identifier: Apache-2.0
// One line of descent, as in AVO: every proposal continues the best kernel.
#pragma once

#include "population/strategy.hpp"
#include "population/tunings.hpp"

namespace cultivar {

// Its end is the incumbent; before the first one, the fittest measured individual. Partners come from the
// earlier ends of the line and the settings of its source.
class OneLine : public Strategy {
 public:
  explicit OneLine(const PopulationOptions& options) : options_(options) {}

  void settle(IndividualId, const Findings&, const Archive&) override;
  void revalue(IndividualId, double fitness) override;
  void expel(IndividualId) override;
  void promoted(IndividualId) override;
  std::vector<IndividualId> parents(int island, const ParentsWanted&, const Archive&,
                                    RandomStream&) const override;
  std::vector<Elite> elites(int island) const override;  // the end of the line

 private:
  PopulationOptions options_;
  std::vector<Elite> line_;     // promoted, in order
  std::vector<Elite> fittest_;  // fittest first; at most kMost
  Tunings tunings_;
};

}  // namespace cultivar
