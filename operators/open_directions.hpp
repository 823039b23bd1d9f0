// SPDX-License-Identifier: Apache-2.0
// The directions of a model for one kernel that an operator has not followed yet: each is followed once, in
// order.
#pragma once

#include <algorithm>
#include <string>

#include "operators/asking_operator.hpp"
#include "population/archive.hpp"

namespace cultivar {

class OpenDirections {
 public:
  void replace(IndividualId subject, Directions given) {
    subject_ = subject;
    open_ = std::move(given.words);
  }
  void asked(const std::string& direction) { std::erase(open_, direction); }

  bool drop(const std::string& direction) {
    if (std::ranges::find(open_, direction) == open_.end()) return false;
    open_.clear();
    return true;
  }

  // A brief for the next direction, about the best setting of its kernel. nullopt if there is none, or if the
  // kernel was rejected.
  std::optional<Brief> next(const OperatorContext& s) const {
    if (open_.empty()) return std::nullopt;
    Brief brief;
    brief.parents = {best_setting(s.archive, subject_)};
    if (s.archive.state(brief.parents.front()) != Member::State::measured) return std::nullopt;
    brief.island = s.island;
    brief.direction = open_.front();
    return brief;
  }

 private:
  IndividualId subject_ = 0;
  std::vector<std::string> open_;
};

}  // namespace cultivar
