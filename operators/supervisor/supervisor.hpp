// SPDX-License-Identifier: Apache-2.0
// Notices that a search stagnates, and decides what to change. The table of triggers and answers is in the
// README of operators/.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "population/individual.hpp"
#include "population/strategy.hpp"

namespace cultivar {

// A deliberate change of how a stagnating search proposes, why it was made, and what it gave.

// Why a search is said to stagnate. The names are in records.
enum class Trigger : std::uint8_t {
  evaluations,   // none promoted during so many evaluations
  device_time,   // none promoted during so many seconds of checks and measurements
  cost,          // none promoted for so many USD
  failures,      // the proposals of one operator were rejected at one stage, so often in a row
  repetition,    // so many of the last proposals or questions repeated an earlier one
  unprofitable,  // so many proposals of one operator in a row were not faster than their parent
  roofline       // the best is so near to what the device was seen to do
};
inline constexpr std::size_t kTriggers = 7;

// What is done about it during the next proposals.
enum class Answer : std::uint8_t {
  direction,  // other directions than the latest ones; more questions
  parent,     // other sources than the latest ones as parents
  ancestor,   // a new line from an ancestor of the best, on an island of its own if there are islands
  tuning,     // more tuning, of other sources than the latest ones
  plan,       // a model is asked for strategies
  reset       // the least promising island begins anew, and is bred from
};
inline constexpr std::size_t kAnswers = 6;

std::string_view name_of(Trigger);
std::string_view name_of(Answer);
std::optional<Trigger> trigger_named(std::string_view);
std::optional<Answer> answer_named(std::string_view);

struct Intervention {
  std::int64_t number = 0;  // 1, 2, 3, ...
  Trigger trigger = Trigger::evaluations;
  Answer answer = Answer::direction;
  double seen = 0.0;          // what the trigger counted, in its unit
  std::string subject = {};   // failures: the stage; failures, unprofitable: the operator, with its model
  IndividualId ancestor = 0;  // of Answer::ancestor

  friend bool operator==(const Intervention&, const Intervention&) = default;
};

// What was judged of the proposals that an intervention led to, until it ended.
struct InterventionResult {
  std::int64_t number = 0;
  std::int64_t evaluated = 0, measured = 0, promoted = 0;
  double best_gain = 0.0;  // the largest ratio to its parent, minus 1; 0: none was faster

  friend bool operator==(const InterventionResult&, const InterventionResult&) = default;
};

// A trigger with 0 is off.
struct SupervisorOptions {
  bool active = true;
  std::int64_t evaluations = 40;
  double device_s = 7200.0;
  double usd = 10.0;
  int failures = 6;
  int repetitions = 6;    // of the last 2 * repetitions proposals and questions
  int trials = 30;        // of the operator, since it last had a gain
  double roofline = 0.9;  // share of the best's workloads' peaks, geometric mean
  int term = 12;  // judged proposals after which an intervention ends; of a new line: without progress

  friend bool operator==(const SupervisorOptions&, const SupervisorOptions&) = default;
};

// A pure function of its history: the same calls in the same order give the same decisions. A value; not
// thread-safe.
class Supervisor {
 public:
  // `arms`: the names of the portfolio's arms.
  Supervisor(const SupervisorOptions&, std::vector<std::string> arms);

  // --- Decisions. The caller records each and then calls begin() or end(). ---

  // Whether a trigger asks for an intervention.
  bool stagnates() const;
  // The intervention that is due, among answers that are possible now; its `ancestor` is the caller's.
  std::optional<Intervention> due(const std::set<Answer>& possible) const;
  // The result of the current intervention, if it has ended: after `term` proposals that it led to, after a
  // promotion, or after four times as many individuals in all. A new line (Answer::ancestor, reset) ends
  // after as many since its best was last exceeded, after eight terms, or after a promotion of its own.
  std::optional<InterventionResult> over() const;
  const std::optional<Intervention>& current() const { return current_; }
  // How often an answer was given since the last promotion.
  int given(Answer answer) const { return given_.at(static_cast<std::size_t>(answer)); }

  // --- History. `under`: the intervention during which the proposal was made, 0: none. ---

  struct Judged {
    std::size_t arm = 0;  // out of range: not proposed by an arm
    double gain = 0.0;    // ratio to its parent minus 1, if that is more than noise; else 0
    double usd = 0.0;
    std::int64_t under = 0;
  };
  void judged(const Findings&, const Judged&);
  void asked(bool again);                   // a question; again: an equal one was asked before
  void spent(double usd, double device_s);  // on a question that made no individual
  void promoted(double share_of_roofline, std::int64_t under);
  void begin(const Intervention&);
  void end();

 private:
  struct Arm {
    std::string name;
    std::optional<Stage> stage = {};  // of the rejections in a row
    int failures = 0, trials = 0;     // trials: since the last gain
  };
  std::optional<Intervention> noticed() const;  // without number and answer
  void repeated(bool);
  void calm();  // counts from the beginning

  SupervisorOptions options_;
  std::vector<Arm> arms_;
  std::int64_t evaluations_ = 0, promotions_ = 0, interventions_ = 0;  // evaluations_: since calm()
  double device_s_ = 0.0, usd_ = 0.0;                                  // since calm()
  std::deque<bool> repetitions_;
  double share_of_roofline_ = 0.0;     // of the best
  bool told_of_roofline_ = false;      // since the last promotion
  std::array<int, kAnswers> given_{};  // since the last promotion
  std::optional<Intervention> current_;
  InterventionResult result_;  // of the current one
  // Of the current one: judged individuals since it began, or since its new line had a better one; how many
  // of its own were judged by then; and the best fitness of its line.
  std::int64_t since_progress_ = 0, evaluated_at_progress_ = 0;
  double best_of_line_ = 0.0;
  bool ended_by_promotion_ = false;
};

}  // namespace cultivar
