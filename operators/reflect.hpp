// SPDX-License-Identifier: Apache-2.0
// Reads the ideas of the search and their results, and condenses them to a few insights, which all later
// questions carry.
#pragma once

#include <set>
#include <string>

#include "operators/asking_operator.hpp"

namespace cultivar {

class Reflect : public AskingOperator {
 public:
  std::string name() const override { return "reflect"; }
  int parents_wanted() const override { return 0; }
  // About the fittest individual; again after enough new sources have been evaluated.
  std::optional<Brief> plan(const OperatorContext&, RandomStream&) override;
  void asked(const Brief&, const Archive&) override;
  void observe(IndividualId, const Archive&) override;
  void write(const Brief&, PromptWriter&) const override;
  // An answer needs lines `INSIGHT: ...` of at most kInsightBytes together; otherwise it is sent back.
  Move next(const Conversation&) const override;

 private:
  std::set<std::string> sources_;  // of evaluated individuals
  int news_ = 0;                   // how many of them are new since it was asked
};

// About 600 tokens.
inline constexpr std::size_t kInsightBytes = 1800;

}  // namespace cultivar
