// SPDX-License-Identifier: Apache-2.0
// One parent and one given direction: a language model changes the source.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "operators/asking_operator.hpp"

namespace cultivar {

// The directions that apply to every target, and the target's own.
std::vector<Direction> directions(Target);

class Mutate : public AskingOperator {
 public:
  std::string name() const override { return "mutate"; }
  int parents_wanted() const override { return 1; }
  // Follows a model's directions first. Otherwise chooses one of the directions that were tried least on this
  // source, most often the first one, which follows the measurements.
  std::optional<Brief> plan(const OperatorContext&, RandomStream&) override;
  void asked(const Brief&, const Archive&) override;
  void directed(IndividualId, const Directions&) override;
  bool drop_directions(const std::string& direction) override { return given_.drop(direction); }
  void write(const Brief&, PromptWriter&) const override;
  Move next(const Conversation&) const override;

 private:
  std::map<std::pair<std::string, std::string>, int> tried_;  // (source id, direction) -> number of times
  OpenDirections given_;
};

}  // namespace cultivar
