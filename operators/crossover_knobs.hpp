// SPDX-License-Identifier: Apache-2.0
// A child with the first parent's source; each tunable that both parents have gets the value of one of
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
  Partner partner() const override { return Partner::tuning; }
  // A combination that violates a constraint is repaired by reverting values to the first parent's, one by
  // one in random order; nullopt if no value of the second parent remains, or if the parents do not differ in
  // a shared tunable.
  std::optional<Proposal> propose(const OperatorContext&, RandomStream&) override;

 private:
  struct Stock {  // for one source
    std::string source;
    std::unique_ptr<Feasibility> feasible;  // null if there are no tunables
  };
  const Stock& stock_of(const std::string& source_id, const OperatorContext&);

  std::map<std::string, Stock> stock_;
};

}  // namespace cultivar
