// SPDX-License-Identifier: Apache-2.0
// Two parents with different sources: a language model combines the strengths of both.
#pragma once

#include <map>
#include <utility>

#include "operators/asking_operator.hpp"

namespace cultivar {

class Crossover : public AskingOperator {
 public:
  std::string name() const override { return "crossover"; }
  int parents_wanted() const override { return 2; }
  Partner partner() const override { return Partner::complement; }
  // The second parent has another source (crossover_knobs handles parents with the same source): the one from
  // selection, or else the fittest, rather one that duels do not show to be faster or slower everywhere.
  // nullopt if every pair with the first parent was asked about before.
  std::optional<Brief> plan(const OperatorContext&, RandomStream&) override;
  void asked(const Brief&, const Archive&) override;
  void write(const Brief&, PromptWriter&) const override;
  Move next(const Conversation&) const override;

 private:
  std::map<std::pair<std::string, std::string>, int> tried_;  // source ids
};

}  // namespace cultivar
