// SPDX-License-Identifier: Apache-2.0
#include "operators/supervisor/supervisor.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace cultivar {

namespace {

// The answers to each trigger, from the mildest to the strongest. They are given in turn until a promotion.
std::span<const Answer> answers_to(Trigger trigger) {
  using enum Answer;
  static constexpr std::array stagnation{direction, parent, ancestor, tuning, plan, reset};
  static constexpr std::array failing{direction, parent, ancestor, plan};
  static constexpr std::array repeating{direction, plan, parent, ancestor};
  static constexpr std::array unprofitable{parent, direction, tuning, plan};
  static constexpr std::array near_the_roof{tuning};
  switch (trigger) {
    case Trigger::failures:
      return failing;
    case Trigger::repetition:
      return repeating;
    case Trigger::unprofitable:
      return unprofitable;
    case Trigger::roofline:
      return near_the_roof;
    case Trigger::evaluations:
    case Trigger::device_time:
    case Trigger::cost:
      break;
  }
  return stagnation;
}

// A new line is slower than the best at first, so it needs time.
bool begins_a_line(Answer answer) {
  return answer == Answer::ancestor || answer == Answer::reset;
}

constexpr int kMostTerms = 8;  // of a new line that gets faster

}  // namespace

Supervisor::Supervisor(const SupervisorOptions& options, std::vector<std::string> arms) : options_(options) {
  for (std::string& name : arms) arms_.push_back({std::move(name)});
}

// The more specific triggers come first: they say what is wrong, not only that something is.
std::optional<Intervention> Supervisor::noticed() const {
  const auto found = [](Trigger trigger, double seen, std::string subject = {}) {
    Intervention intervention;
    intervention.trigger = trigger;
    intervention.seen = seen;
    intervention.subject = std::move(subject);
    return intervention;
  };
  // A search that stagnates in spite of an answer gets the next one after half of the patience.
  const double patience = std::ranges::all_of(given_, [](int count) { return count == 0; }) ? 1.0 : 0.5;
  if (options_.roofline > 0 && share_of_roofline_ >= options_.roofline && !told_of_roofline_)
    return found(Trigger::roofline, share_of_roofline_);
  for (const Arm& arm : arms_)
    if (options_.failures > 0 && arm.failures >= options_.failures)
      return found(Trigger::failures, arm.failures, arm.name + ": " + std::string(name_of(*arm.stage)));
  const auto repeats = std::ranges::count(repetitions_, true);
  if (options_.repetitions > 0 && repeats >= options_.repetitions)
    return found(Trigger::repetition, static_cast<double>(repeats));
  if (arms_.size() > 1)
    for (const Arm& arm : arms_)
      if (options_.trials > 0 && arm.trials >= options_.trials)
        return found(Trigger::unprofitable, arm.trials, arm.name);
  const auto enough = [&](double seen, double threshold) {
    return threshold > 0 && seen >= patience * threshold;
  };
  if (enough(usd_, options_.usd)) return found(Trigger::cost, usd_);
  if (enough(device_s_, options_.device_s)) return found(Trigger::device_time, device_s_);
  if (enough(static_cast<double>(evaluations_), static_cast<double>(options_.evaluations)))
    return found(Trigger::evaluations, static_cast<double>(evaluations_));
  return std::nullopt;
}

bool Supervisor::stagnates() const {
  return options_.active && !current_ && promotions_ > 0 && noticed().has_value();
}

std::optional<Intervention> Supervisor::due(const std::set<Answer>& possible) const {
  if (!stagnates()) return std::nullopt;
  auto intervention = noticed();
  std::vector<Answer> answers;
  for (const Answer answer : answers_to(intervention->trigger))
    if (possible.contains(answer)) answers.push_back(answer);
  if (answers.empty()) return std::nullopt;
  // The mildest of those given least often, by whatever trigger.
  intervention->answer = *std::ranges::min_element(answers, {}, [this](Answer a) { return given(a); });
  intervention->number = interventions_ + 1;
  return intervention;
}

std::optional<InterventionResult> Supervisor::over() const {
  if (!current_) return std::nullopt;
  const bool long_enough = result_.evaluated >= kMostTerms * std::int64_t{options_.term};
  const bool ended = ended_by_promotion_ || long_enough ||
                     result_.evaluated - evaluated_at_progress_ >= options_.term ||
                     since_progress_ >= std::int64_t{4} * options_.term;
  return ended ? std::optional(result_) : std::nullopt;
}

void Supervisor::repeated(bool again) {
  repetitions_.push_back(again);
  if (repetitions_.size() > 2 * static_cast<std::size_t>(std::max(1, options_.repetitions)))
    repetitions_.pop_front();
}

void Supervisor::judged(const Findings& findings, const Judged& judged) {
  ++evaluations_;
  ++since_progress_;
  spent(judged.usd, findings.device_s);
  if (current_ && judged.under == current_->number) {
    ++result_.evaluated;
    result_.measured += findings.measured ? 1 : 0;
    result_.best_gain = std::max(result_.best_gain, judged.gain);
    if (begins_a_line(current_->answer) && judged.gain > 0.0 && findings.fitness > best_of_line_) {
      best_of_line_ = findings.fitness;
      evaluated_at_progress_ = result_.evaluated;
      since_progress_ = 0;
    }
  }
  if (judged.arm >= arms_.size()) return;
  repeated(findings.duplicate_of != 0);
  Arm& arm = arms_[judged.arm];
  arm.trials = judged.gain > 0.0 ? 0 : arm.trials + 1;
  if (findings.duplicate_of != 0) return;
  if (findings.measured || findings.rejected_at != arm.stage) arm.failures = 0;
  arm.stage = findings.rejected_at;
  if (!findings.measured && findings.rejected_at) ++arm.failures;
}

void Supervisor::asked(bool again) {
  repeated(again);
}

void Supervisor::spent(double usd, double device_s) {
  usd_ += usd;
  device_s_ += device_s;
}

void Supervisor::calm() {
  evaluations_ = 0;
  device_s_ = usd_ = 0.0;
  repetitions_.clear();
  for (Arm& arm : arms_) arm.failures = arm.trials = 0;
}

void Supervisor::promoted(double share_of_roofline, std::int64_t under) {
  ++promotions_;
  share_of_roofline_ = share_of_roofline;
  told_of_roofline_ = false;
  given_ = {};
  calm();
  if (!current_) return;
  const bool its_own = under == current_->number;
  // A new line goes on while others of the old line are still promoted.
  ended_by_promotion_ = ended_by_promotion_ || its_own || !begins_a_line(current_->answer);
  result_.promoted += its_own ? 1 : 0;
}

void Supervisor::begin(const Intervention& intervention) {
  current_ = intervention;
  interventions_ = intervention.number;
  result_ = {intervention.number};
  since_progress_ = evaluated_at_progress_ = 0;
  best_of_line_ = 0.0;
  ended_by_promotion_ = false;
  told_of_roofline_ = told_of_roofline_ || intervention.trigger == Trigger::roofline;
  ++given_.at(static_cast<std::size_t>(intervention.answer));
  calm();
}

void Supervisor::end() {
  current_.reset();
  calm();
}

namespace {

// In the order of the enumerators.
constexpr std::array<std::string_view, kTriggers> kTriggerNames{
    "evaluations", "device_time", "cost", "failures", "repetition", "unprofitable", "roofline"};
constexpr std::array<std::string_view, kAnswers> kAnswerNames{"direction", "parent", "ancestor",
                                                              "tuning",    "plan",   "reset"};

template <class Named, std::size_t Count>
std::optional<Named> named(const std::array<std::string_view, Count>& names, std::string_view name) {
  const auto* const found = std::ranges::find(names, name);
  if (found == names.end()) return std::nullopt;
  return static_cast<Named>(found - names.begin());
}

}  // namespace

std::string_view name_of(Trigger trigger) {
  return kTriggerNames.at(static_cast<std::size_t>(trigger));
}

std::string_view name_of(Answer answer) {
  return kAnswerNames.at(static_cast<std::size_t>(answer));
}

std::optional<Trigger> trigger_named(std::string_view name) {
  return named<Trigger>(kTriggerNames, name);
}

std::optional<Answer> answer_named(std::string_view name) {
  return named<Answer>(kAnswerNames, name);
}

}  // namespace cultivar
