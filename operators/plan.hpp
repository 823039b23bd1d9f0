// SPDX-License-Identifier: Apache-2.0
// A planner: a language model sees the results of the search so far and gives strategies, which become
// directions for other operators.
#pragma once

#include <set>
#include <string>

#include "operators/asking_operator.hpp"

namespace cultivar {

class PlanOperator : public AskingOperator {
 public:
  std::string name() const override { return "plan"; }
  int parents_wanted() const override { return 0; }
  bool plans() const override { return true; }
  // About the fittest individual, once answers have been evaluated (OperatorContext::frugal); again after
  // enough new sources have been evaluated.
  std::optional<Brief> plan(const OperatorContext&, RandomStream&) override;
  void asked(const Brief&, const Archive&) override;
  void observe(IndividualId, const Archive&) override;
  void write(const Brief&, PromptWriter&) const override;
  // An answer needs three to five lines `STRATEGY: ...`; otherwise it is sent back with the reason.
  Move next(const Conversation&) const override;

 private:
  std::set<std::string> sources_;  // of evaluated individuals
  int written_ = 0;                // how many of them are no seeds
  int news_ = 0;                   // how many of them are new since it was asked
  bool asked_ = false;
};

}  // namespace cultivar
