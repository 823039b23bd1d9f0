// SPDX-License-Identifier: Apache-2.0
// The input of prompts: the task, the device, and the record of the search so far.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "evaluators/profile/profile.hpp"
#include "evaluators/verdict/evaluation.hpp"
#include "operators/prompts/describe.hpp"
#include "population/archive.hpp"
#include "population/individual.hpp"

namespace cultivar {

// The ideas of a run: what was tried, by whom, and what came of it, from seeds, prompts and agents. Computed
// from the record, so that a resumed search knows the same.
struct Idea {
  enum class End : std::uint8_t {
    open,        // a question without an answer so far
    individual,  // the archive knows its result
    nothing      // a question that made no individual
  };
  End end = End::individual;
  IndividualId id = 0;                     // of End::individual
  std::int64_t question = 0;               // of the others
  std::string op = {}, model = {};         // model: empty without one
  std::vector<IndividualId> parents = {};  // or the kernels that the question was about
  std::string words = {};                  // the idea, or the question's direction
  std::string reason = {};                 // of End::nothing
  // What an agent made before its question came to nothing, one line each.
  std::vector<std::string> drafts = {};
};

// Facts about an individual that the archive does not hold.
struct IndividualFacts {
  std::string note;  // the idea
  std::string stage, reason;
  bool expelled = false;
};

// What prompts read from the record. References are valid during the call.
class RecordView {
 public:
  virtual ~RecordView() = default;
  virtual std::string source(IndividualId) const = 0;
  virtual IndividualFacts life(IndividualId) const = 0;
  virtual std::optional<Evaluation> evaluation(
      IndividualId) const = 0;  // the evaluation of the confirmation, if that failed
  virtual std::optional<Profile> profile(IndividualId) const = 0;
  virtual std::vector<IndividualId> children(IndividualId) const = 0;
  virtual std::vector<IndividualId> promoted() const = 0;  // the incumbents, in order
  virtual std::vector<Idea> ideas() const = 0;             // oldest first
  // Ratios of contenders to the incumbent, by name and workload: contender's time / incumbent's time.
  virtual std::map<std::string, std::map<std::string, double>> contenders() const = 0;
};

struct PromptContext {
  const Task& task;
  const std::vector<Workload>& workloads;
  const Facts& facts;
  const Archive& archive;
  const RecordView& record_view;
  Target target = usual_target();
  std::string device;  // as text
  std::string architecture = {};
  Ceilings seen = {};  // 0: unknown
  IndividualId incumbent = 0;
  IndividualId winner = 0;                 // of a duel against the incumbent, not confirmed yet; 0: none
  std::vector<std::string> insights = {};  // of the operator `reflect`
};

}  // namespace cultivar
