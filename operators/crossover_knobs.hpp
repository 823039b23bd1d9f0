// A child with the first parent's source and, for each tunable that both parents have, the value of one of
// them.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "operators/feasibility.hpp"
#include "operators/operator.hpp"

namespace cultivar {

class CrossoverKnobs : public Operator {
 public:
  std::string name() const override { return "crossover_knobs"; }
  int parents_wanted() const override { return 2; }
  // A mixture that breaks a constraint is repaired by taking values back, one by one in random order, until
  // it holds none of the second parent's; nullopt when the parents share no tunable on which they differ.
  std::optional<Proposal> propose(const Surroundings&, RandomStream&) override;

 private:
  struct Stock {  // one source
    std::string source;
    std::unique_ptr<Feasibility> feasible;  // none: no tunables
  };
  const Stock& stock_of(const std::string& source_id, const Surroundings&);

  std::map<std::string, Stock> stock_;
};

}  // namespace cultivar
