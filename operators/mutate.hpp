// One parent, one stated direction: a language model changes the source.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "operators/operator.hpp"

namespace cultivar {

struct Direction {
  std::string_view name, words;
  std::string_view target;  // where it makes sense; empty: everywhere
};
const std::vector<Direction>& directions();

class Mutate : public AskingOperator {
 public:
  std::string name() const override { return "mutate"; }
  int parents_wanted() const override { return 1; }
  // One of the directions that were tried least on this source. Most often it is the first, which leaves the
  // choice to what was measured.
  std::optional<Brief> plan(const Surroundings&, RandomStream&) override;
  void asked(const Brief&, const Archive&) override;

 private:
  std::map<std::pair<std::string, std::string>, int> tried_;  // (source id, direction) -> how often
};

}  // namespace cultivar
