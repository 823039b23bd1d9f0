// An operator makes a proposal from individuals, the task and knowledge. One file pair in this folder for
// each, and one line in registry.cpp.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "evaluators/task/task.hpp"
#include "population/archive.hpp"
#include "population/individual.hpp"
#include "population/random.hpp"

namespace cultivar {

struct Proposal {
  std::string source;  // whole file
  Configuration configuration;
  Descent descent;
};

// What an operator may look at. References live as long as the call.
struct Surroundings {
  const Task& task;
  const std::vector<Workload>& workloads;
  const Facts& facts;
  const Archive& archive;                                           // everybody, those in flight too
  const std::function<std::string(const std::string&)>& source_of;  // source id -> text, from the record
  int island = 0;
  std::vector<IndividualId> parents;  // chosen by selection, fittest first
};

// Called from one thread only, by the search's serial step. A proposal must be a pure function of what was
// observed, the surroundings and the stream: the replay of a record makes it again.
class Operator {
 public:
  virtual ~Operator() = default;
  virtual std::string name() const = 0;
  virtual int parents_wanted() const = 0;
  // nullopt: nothing new to propose (the space is exhausted, the parents have nothing in common); the search
  // asks another operator.
  virtual std::optional<Proposal> propose(const Surroundings&, RandomStream&) = 0;
  // Every judged individual, in the order of the record, so that an operator's state can be rebuilt from it.
  virtual void observe(IndividualId, const Archive&) {}
};

}  // namespace cultivar
