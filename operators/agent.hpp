// SPDX-License-Identifier: Apache-2.0
// An agent: a language model with tools that repeatedly reads, edits, compiles, checks, times and profiles,
// and then submits one kernel (operators/agent).
#pragma once

#include <map>
#include <string>

#include "operators/asking_operator.hpp"

namespace cultivar {

class Agent : public AskingOperator {
 public:
  std::string name() const override { return "agent"; }
  int parents_wanted() const override { return 1; }
  // Follows a model's directions first. Otherwise uses the parent that selection offers. If an agent worked
  // on that source before, the brief says so, so that the next one takes a different approach.
  std::optional<Brief> plan(const OperatorContext&, RandomStream&) override;
  void asked(const Brief&, const Archive&) override;
  void directed(IndividualId, const Directions&) override;
  bool drop_directions(const std::string& direction) override { return given_.drop(direction); }
  void write(const Brief&, PromptWriter&) const override;
  Move next(const Conversation&) const override;

 private:
  std::map<std::string, int> worked_on_;  // source id -> number of times
  OpenDirections given_;
};

}  // namespace cultivar
