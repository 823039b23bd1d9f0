// Two parents of different sources: a language model takes from each what it does better.
#pragma once

#include <map>
#include <utility>

#include "operators/operator.hpp"

namespace cultivar {

class Crossover : public AskingOperator {
 public:
  std::string name() const override { return "crossover"; }
  int parents_wanted() const override { return 2; }
  // The second parent has another source (knobs of one source are crossover_knobs' affair): selection's, or
  // else the fittest. nullopt when every pair of the first was asked about before.
  std::optional<Brief> plan(const Surroundings&, RandomStream&) override;
  void asked(const Brief&, const Archive&) override;

 private:
  std::map<std::pair<std::string, std::string>, int> tried_;  // source ids
};

}  // namespace cultivar
