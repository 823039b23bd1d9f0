// An agent: a language model with tools, which reads, edits, builds, checks, times and profiles, cycle after
// cycle, and then hands over one kernel (operators/agent).
#pragma once

#include <map>
#include <string>

#include "operators/operator.hpp"

namespace cultivar {

class Agent : public AskingOperator {
 public:
  std::string name() const override { return "agent"; }
  int parents_wanted() const override { return 1; }
  // The parent that selection offers. Of a source that an agent worked on before, the brief says so, that the
  // next one takes another way.
  std::optional<Brief> plan(const Surroundings&, RandomStream&) override;
  void asked(const Brief&, const Archive&) override;

 private:
  std::map<std::string, int> worked_on_;  // source id -> how often
};

}  // namespace cultivar
