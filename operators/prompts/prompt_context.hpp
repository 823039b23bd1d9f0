// SPDX-License-Identifier: Apache-2.0
// The input of prompts: the task, the device, and the record of the search so far.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "evaluators/profile/profile.hpp"
#include "evaluators/verdict/evaluation.hpp"
#include "operators/prompts/describe.hpp"
#include "operators/prompts/ideas.hpp"
#include "population/archive.hpp"

namespace cultivar {

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
