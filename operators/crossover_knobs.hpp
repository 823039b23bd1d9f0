// SPDX-License-Identifier: Apache-2.0
// A child with the first parent's source; each tunable that both parents have gets the value of one of
// them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "operators/feasibility.hpp"
#include "operators/operator.hpp"
#include "operators/tune/lessons.hpp"

namespace cultivar {

class CrossoverKnobs : public Operator {
 public:
  // `avoids_refusals`: a child that presumably gives a known kernel again, or fails as one did, is drawn
  // again. Without, as for records of rules 8 and before.
  explicit CrossoverKnobs(bool avoids_refusals = true) : avoids_refusals_(avoids_refusals) {}

  std::string name() const override { return "crossover_knobs"; }
  int parents_wanted() const override { return 2; }
  Partner partner() const override { return Partner::tuning; }
  // A combination that violates a constraint is repaired by reverting values to the first parent's, one by
  // one in random order; nullopt if no value of the second parent remains, or if the parents do not differ in
  // a shared tunable.
  std::optional<Proposal> propose(const OperatorContext&, RandomStream&) override;
  void observe(IndividualId, const Archive&) override;

 private:
  struct Stock {  // for one source
    std::string source;
    std::unique_ptr<Feasibility> feasible;  // null if there are no tunables; and these two
    std::unique_ptr<KnobPoints> points;
    std::unique_ptr<Lessons> lessons;
  };
  struct Child {
    Configuration configuration;
    std::vector<std::string> taken;  // tunables that have the second parent's value
  };
  Stock& stock_of(const std::string& source_id, const OperatorContext&);
  void read(Stock&, const std::string& source_id, const Archive&);

  bool avoids_refusals_;
  std::map<std::string, Stock> stock_;
  std::map<std::string, std::vector<IndividualId>> unread_;  // by source: evaluated, but not yet known
};

}  // namespace cultivar
