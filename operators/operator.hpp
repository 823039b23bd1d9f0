// SPDX-License-Identifier: Apache-2.0
// An operator makes a proposal from individuals, the task and knowledge. Each operator is one file pair in
// this folder and one row in registry.cpp.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "evaluators/system/random.hpp"
#include "evaluators/task/task.hpp"
#include "population/archive.hpp"
#include "population/individual.hpp"
#include "population/strategy.hpp"

namespace cultivar {

struct Proposal {
  std::string source;  // the complete file
  Configuration configuration;
  Descent descent;
  VariantPtr variant = {};  // parsed already; nullptr: not yet
};

// The decision about a question to a language model. It is recorded; together with the answers it determines
// the result.
struct Brief {
  std::string op, model;              // model: the configuration's name for it
  std::vector<IndividualId> parents;  // the first one is edited
  int island = 0;
  std::string direction;  // what the proposal should try, as text; compared by replay, so do not reword
                          // existing directions
  int round = 1;          // number of the repair in a row of repairs, from 1

  friend bool operator==(const Brief&, const Brief&) = default;
};

// What an operator can read. References are valid during the call.
struct OperatorContext {
  const Task& task;
  const std::vector<Workload>& workloads;
  const Facts& facts;
  const Archive& archive;  // all individuals, including those in flight
  const std::function<std::string(const std::string&)>& source_of;  // source id -> text, from the record
  int island = 0;
  std::vector<IndividualId> parents;  // chosen by selection, fittest first
  Target target = usual_target();
  // Of the supervisor: directions not to use if there are others, and whether a planner is to ask in any
  // case.
  std::set<std::string> avoid_directions = {};
  bool must_plan = false;
  bool all_settings = false;    // the child of two settings takes all of the second parent's that it can have
  bool apt_directions = false;  // of those that a target has, only the ones that suit the task's arithmetic
  bool kin_apart = false;       // the parents of a crossover must not descend from each other
  bool mutual_gain = false;     // of a crossover's pairs, rather one of which no duel says that one kernel is
                                // faster on every workload
  // Models are asked only what can still matter: `crossover` of pairs that duels show to differ,
  // `critique_repair` of kernels that are not far behind, `plan` after kernels of models were evaluated.
  bool frugal = false;
  bool limited_by_bytes = false;  // no direction about arithmetic on a GPU whose time goes to the bytes
};

class AskingOperator;

// Called only from the search's serial step, on one thread. A proposal must be a pure function of the
// observed individuals, the surroundings and the stream, because a replay recomputes it.
class Operator {
 public:
  virtual ~Operator() = default;
  virtual std::string name() const = 0;
  virtual int parents_wanted() const = 0;
  virtual Partner partner() const { return Partner::any; }  // the second parent
  virtual bool plans() const { return false; }              // its questions lead to directions
  // nullopt: nothing new to propose (the space is exhausted, or the parents have nothing in common); the
  // search then calls another operator.
  virtual std::optional<Proposal> propose(const OperatorContext&, RandomStream&) = 0;
  // Called for every evaluated individual, in the order of the record, so that an operator's state can be
  // rebuilt.
  virtual void observe(IndividualId, const Archive&) {}
  virtual AskingOperator* asking() { return nullptr; }  // itself, if it asks a language model
};

}  // namespace cultivar
