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

// What a language model is to be asked, as it was decided. The record keeps it; what becomes of the answers
// follows from it.
struct Brief {
  std::string op, model;              // model: the configuration's name for it
  std::vector<IndividualId> parents;  // the first is the one that is edited
  int island = 0;
  std::string direction;  // what the proposal shall try, in words
  int round = 1;          // of repairs on one line: 1 for the first

  friend bool operator==(const Brief&, const Brief&) = default;
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
  // An operator that asks a language model proposes nothing by itself: it plans what is asked (op and model
  // are filled in by the caller). Like a proposal, a plan is a pure function of what was observed and asked.
  virtual bool asks() const { return false; }
  virtual std::optional<Brief> plan(const Surroundings&, RandomStream&) { return std::nullopt; }
  virtual void asked(const Brief&, const Archive&) {}  // every brief of this operator that went out
  // Every judged individual, in the order of the record, so that an operator's state can be rebuilt from it.
  virtual void observe(IndividualId, const Archive&) {}
};

// What all that ask have in common.
class AskingOperator : public Operator {
 public:
  bool asks() const final { return true; }
  std::optional<Proposal> propose(const Surroundings&, RandomStream&) final { return std::nullopt; }
};

}  // namespace cultivar
