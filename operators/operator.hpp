// An operator makes a proposal from individuals, the task and knowledge. One file pair in this folder for each, and
// one line in registry.cpp.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "evaluators/task/task.hpp"
#include "population/individual.hpp"

namespace cultivar {

using RandomStream = std::mt19937_64;

struct Proposal {
  std::string source;          // whole file
  Configuration configuration;
  Descent descent;
};

// What an operator may look at. References live as long as the call.
struct Surroundings {
  const Task& task;
  const std::vector<Workload>& workloads;
  const Facts& facts;
  const std::vector<Individual>& individuals;                       // all recorded so far, by id - 1
  const std::vector<IndividualId>& in_flight;                       // proposed, not judged yet (also in `individuals`)
  std::function<std::string(IndividualId)> source_of;               // from the record
  int island = 0;
  std::vector<IndividualId> parents;                                // chosen by selection, best first
};

// Called from one thread only, by the search's serial step.
class Operator {
 public:
  virtual ~Operator() = default;
  virtual std::string name() const = 0;
  virtual int parents_wanted() const = 0;
  // nullopt: nothing new to propose from these parents (the space is exhausted); the search asks another operator.
  virtual std::optional<Proposal> propose(const Surroundings&, RandomStream&) = 0;
  // Every result, in the order of the record, so that an operator's state can be rebuilt from it.
  virtual void observe(const Individual&) {}
};

}  // namespace cultivar
